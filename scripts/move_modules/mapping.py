"""Where today's modules go: target module <- its docstring and the ordered list of source modules.

All names are relative to `tidemill`. A package's own docstring stands in PACKAGES.
RENAMES: (source module, name) -> name in the target, where the automatic name reads badly.
"""

PACKAGES = {
    "model": "What users declare and what a table's log says: frozen dataclasses, validated when made. Knows no Spark.",
    "frontends": "Files that users write become declarations. Knows no Spark.",
    "frontends.sql": "Questions to SQL, answered by sqlglot's trees and scopes.",
    "planning": "What a run will do, as data that can be printed. Knows no Spark.",
    "sources": "Where rows come from: files, databases, HTTP, functions, any Spark data source, and frames of a caller.\n\n"
    "`protocol` says what a connector is, `registry` finds the one for a declared source.",
    "sources.files": "Files as a source: which there are, what text looks like before Spark reads it, and reading without loss.",
    "sources.http": "APIs: requests at a pace, page after page, as a source or from table functions.",
    "formats": "One package per table format, behind the port in `base`.",
    "formats.delta": "Delta tables: their log, their statistics and their commits.",
    "formats.parquet": "Parquet datasets: plain folders of files with a log of their own.",
    "formats.parquet.worker": "What Spark's workers do: write rows to new files, and rewrite files with rows replaced or removed.\n\n"
    "Sent to them by value, with all that it imports of Tidemill. Every call writes to a name of its own: one that is\n"
    "tried again leaves a file that nobody refers to, and nothing else.",
    "ledger": "The SQLite file of runs and steps: a history and a cache. It decides nothing and can be rebuilt from the tables.",
    "changes": "How rows and a strategy become one operation on a table.",
    "execution": "Executes plans: rows are read, checked and committed, step after step.",
    "execution.exports": "Writes a table elsewhere: to files, tables and databases.",
    "maintenance": "What is done to a table beside its runs: backup, restore, drop, repair, compaction, watermarks.",
    "verify": "Proves on the user's own data that a table equals what one full run would give.",
    "suggest": "Looks at sources and proposes how to read them incrementally, where that is safe.",
    "spark": "The Spark session: Java, jars, start-up archive, the embedded engine. Importing it imports no PySpark.",
    "api": "The calls that users make from Python, and the project on which they and all commands work.",
    "cli": "One module per command group; one renderer for text and JSON.",
}

TARGETS = {
    # the root
    "errors": (None, ["errors"]),
    "typing": (None, ["typing"]),
    "testing": (None, ["testing"]),
    "display": ("Tables of results as text and as HTML, for consoles and notebooks.", ["shown"]),
    "__init__": (None, [""]),
    "__main__": (None, ["__main__"]),
    # model
    "model.names": (
        "Names, paths and formats as users write them, and how Spark SQL quotes names and texts.",
        ["declare.names", "declare.paths", "declare.formats"],
    ),
    "model.mistakes": (
        "Mistakes in users' files, each with its place: the line is shown, with a caret under the word.",
        ["declare.text", "declare.mistakes", "declare.wording"],
    ),
    "model.cursor": (
        "Values of a cursor column with their type, and the durations that windows reach back.",
        ["declare.durations", "declare.cursors"],
    ),
    "model.window": (
        "What bounds a window: days and zones, starts that only a run knows, and SQL with @names in it.",
        ["declare.zones", "declare.bounds", "declare.starts", "declare.templates"],
    ),
    "model.join": (
        "What an incremental join is: its six types, how long a row waits, and which rows a window has to read.\n\n"
        "Times are counted in ticks: days, microseconds or increments. One arithmetic holds for all of them, and every\n"
        "window is half-open.",
        ["declare.joins", "declare.ticks"],
    ),
    "model.strategy": ("How a change enters a table. Plain data; `tidemill.changes` gives it behaviour.", ["declare.strategies"]),
    "model.table": (
        "A table that Tidemill keeps: what it is called, how changes enter it, which window a run reads.",
        ["declare.mismatches", "declare.tables"],
    ),
    "model.function": (
        "Functions that give tables their rows: `@tidemill.table`, the expectations, and what these decorators record.",
        ["declare.functions", "declare.decorators"],
    ),
    "model.query": (
        "What gives a table its rows: queries, sources, functions and joins; views; and exports, by which rows leave.",
        ["declare.binding", "declare.producers", "declare.views", "declare.exports"],
    ),
    "model.source": (
        "A source: rows from outside, by its kind and its parameters; and several LOADs of sources into one table.",
        ["declare.sources", "declare.loads"],
    ),
    "model.check": (None, ["declare.checks"]),
    "model.variables": (
        "Variables and where their values come from, and values that must not be shown.",
        ["declare.variables", "declare.secrets"],
    ),
    "model.project": (
        "Where a project is, and which Spark does its work.",
        ["declare.project_file", "declare.spark"],
    ),
    "model.graph": (
        "The graph of all that is declared: what must be there before what; cycles and unknown names are errors.",
        ["plan.graph"],
    ),
    "model.record": (
        "What a commit of ours says of itself, and a table as its log tells it.",
        ["contracts.records", "contracts.snapshots"],
    ),
    # frontends
    "frontends.declarations": (None, ["loading"]),
    "frontends.project": (None, ["project.project"]),
    "frontends.project_file": (
        "The texts of a project file and of `.env`: TOML with the place of every key, its variables, and its shape.",
        ["project.dotenv", "project.filling", "project.toml", "project.shape"],
    ),
    "frontends.sql.queries": (
        "What a query reads and gives, where it cannot be parsed, and its tables bound to what they are in a run.",
        ["language.syntax", "language.queries", "language.binding"],
    ),
    "frontends.sql.volatile": (
        "Output columns that differ from run to run: load times, random numbers, and sums of floats.",
        ["language.volatile", "language.sums"],
    ),
    "frontends.sql.lineage": (
        "Which inputs of a query own an output column, and what in it can make a row disappear.",
        ["language.owners", "language.losing"],
    ),
    "frontends.pipeline.__init__": (
        "SQL pipeline files: from text to statements and declarations, with every error at its place. Knows no Spark.",
        ["language"],
    ),
    "frontends.models.__init__": (
        "Model folders: one SELECT in each file, with metadata beside it, and table functions in Python. Knows no Spark.",
        ["models"],
    ),
    "frontends.pipeline.tokens": (
        "Words, literals, variables and @names of a text, each with its exact place. The lexing is sqlglot's, for Spark.",
        ["language.errors", "language.tokens", "language.jinja", "language.parameters", "language.written"],
    ),
    "frontends.pipeline.substitution": (
        "Puts the values of variables into a text, so that no value can be more than a value.",
        ["language.scope"],
    ),
    "frontends.pipeline.statements": (None, ["language.statements"]),
    "frontends.pipeline.reader": (
        "Reads a text token by token, and JSON objects inside it; what is not as expected is an error at its place.",
        ["language.cursor", "language.objects"],
    ),
    "frontends.pipeline.clauses": (
        "Parts that statements share: where a query ends, modes, keys, lookbacks, OPTIONS and PARAMS.",
        ["language.boundaries", "language.clauses", "language.options"],
    ),
    "frontends.pipeline.joins": (
        "CREATE TABLE … AS INCREMENTAL … JOIN: its clauses, its condition, its columns, and its declaration.",
        ["language.projections", "language.join_clauses", "language.joins"],
    ),
    "frontends.pipeline.grammar": (None, ["language.grammar"]),
    "frontends.pipeline.blocks": (
        "The statements of one file in their order, with IF blocks resolved, and the names that they declare.",
        ["language.names", "language.blocks"],
    ),
    "frontends.pipeline.files": (None, ["language.pipeline"]),
    "frontends.pipeline.declarations": (
        "From the statements of pipelines to declarations: the tables, sources and exports that all front ends give.",
        ["language.declared"],
    ),
    "frontends.pipeline.queries": (
        "A query as a declaration, with what it reads; known also where other statements are wrong.",
        ["language.produced", "language.reads"],
    ),
    "frontends.models.document": (
        "The metadata of a model as its author wrote it, in a sidecar or a comment, with the place of every key.",
        ["models.errors", "models.places", "models.document", "models.comment", "models.sidecar"],
    ),
    "frontends.models.shape": (None, ["models.shape"]),
    "frontends.models.meaning": (
        "What metadata means: the kind of a model, its strategy, its window. Aliases are read here and nowhere else.",
        ["models.conditions", "models.windows", "models.meaning"],
    ),
    "frontends.models.declarations": (
        "From the query and the metadata of a model to its declaration: columns, checks and joins included.",
        ["models.checks", "models.columns", "models.joins", "models.declared"],
    ),
    "frontends.models.reader": (
        "Finds the models of a project and reads them: declarations, or every error of every file.\n\n"
        "A Python file `models/<schema>/<name>.py` that stands alone may hold functions that keep tables; it is loaded\n"
        "as a module that stands for itself.",
        ["models.modules", "models.files", "models.query", "models.reader"],
    ),
    "frontends.models.functions": (
        "Reads Python files whose functions keep tables: what the arguments of their decorators mean.",
        ["models.schemas", "models.expectations", "models.arguments", "models.functions"],
    ),
    # planning
    "planning.request": (
        "What a run is asked for: which nodes of the graph, a backfill in batches, a full refresh.",
        ["plan.backfills", "plan.requests", "plan.selection"],
    ),
    "planning.starts": (
        "Where one run starts, and the literals that its @names stand for in queries and conditions.",
        ["plan.bounds", "plan.starts", "plan.conditions"],
    ),
    "planning.windows": (None, ["plan.windows"]),
    "planning.dates": (
        "Which dates a function is asked for, and why: progress is the last date fetched, whatever rows came.",
        ["plan.dates", "plan.fetching"],
    ),
    "planning.joins": (None, ["plan.joins"]),
    "planning.steps": (
        "What a run would do to a table or a view, and why; and what it does not see by the table's declaration.",
        ["plan.layout", "plan.missed", "plan.steps", "plan.views"],
    ),
    "planning.refusals": (
        "What a run stands on, and everything that is wrong with it before it begins: variables that nobody gives,\n"
        "protected history, changed strategies, tables that became views.",
        ["plan.variables", "plan.changes", "plan.kinds", "plan.refusals", "plan.ground"],
    ),
    "planning.work": (None, ["plan.work"]),
    "planning.operation_sql": (
        "How a change enters its table, as SQL that says the same; `tidemill.changes` is what really does it.",
        ["statements.operations", "statements.joins", "statements.loads"],
    ),
    "planning.statements": (
        "The statements that the first run of a table and the next one send, as texts that can be read.",
        ["statements.windows", "statements.runs"],
    ),
    # sources
    "sources.protocol": (
        "What a connector is, and what a table function is called with.\n\n"
        "To add a kind of source, write a class with the methods of `Connector`, a factory that makes one from a\n"
        "`Source`, and an entry point:\n\n"
        '    [project.entry-points."tidemill.sources"]\n'
        '    salesforce = "my_package:SalesforceConnector"\n\n'
        "`SOURCE accounts TYPE SALESFORCE PARAMS {…}` then reads by it. A connector may raise whatever it likes: the error\n"
        "reaches the user as a `ConnectorError` that names the source and shows none of its secrets.",
        ["sources.protocol", "sources.measured", "sources.run"],
    ),
    "sources.params": (
        "The params of a source and the options of Spark's readers and writers; an unknown name is an error.",
        ["sources.spark_options", "sources.params"],
    ),
    "sources.registry": (
        "The connector for a declared source, and its failures as errors that name it and hide its secrets.",
        ["sources.failures", "sources.registry"],
    ),
    "sources.spark": (
        "Any data source that Spark knows by its name; and fewer columns and rows of a frame, lazily.",
        ["sources.narrow", "sources.kept", "sources.formats"],
    ),
    "sources.frames": (
        "Rows that a caller holds as a source: frames of Spark, Arrow, pandas, Polars, or lists of dicts, one or many.",
        ["sources.batches", "sources.frames"],
    ),
    "sources.functions": (None, ["sources.functions"]),
    "sources.jdbc": (
        "Databases as a source, through Spark's JDBC: their addresses, and for PostgreSQL an exact WHERE.",
        ["sources.addresses", "sources.jdbc"],
    ),
    "sources.exact": (
        "Texts as decimals, dates and moments without loss, and times without a zone as their table has them.\n\n"
        "Spark's readers would round to a decimal, cut the time off a date, and take 10:00 for ten o'clock today.",
        ["sources.naive", "sources.files.exact"],
    ),
    "sources.files.listing": (None, ["sources.files.listing"]),
    "sources.files.text": (
        "CSV and JSON files as bytes: what has to be known of headers, quotes and lines before Spark reads them.",
        [
            "sources.files.contents",
            "sources.files.csv_options",
            "sources.files.csv_bytes",
            "sources.files.headers",
            "sources.files.json_bytes",
        ],
    ),
    "sources.files.known": (None, ["sources.files.known"]),
    "sources.files.untyped": (None, ["sources.files.untyped"]),
    "sources.files.source": (
        "Files and folders as a source: Parquet, CSV, JSON, ORC and Delta, by their kind or by what is there.",
        ["sources.files.written", "sources.files.source"],
    ),
    "sources.http.api": (None, ["sources.http.api"]),
    "sources.http.client": (None, ["sources.http.asking"]),
    "sources.http.fetch": (
        "Requests over HTTP: JSON answers at a shared pace, each asked for once in a run, headers for their origin only.",
        ["sources.http.pace", "sources.http.remembering", "sources.http.fetch"],
    ),
    "sources.http.rest": (
        "APIs as a source: pages of JSON over HTTP, where the next page is, and when to stop.",
        ["sources.http.pages", "sources.http.rest"],
    ),
    # formats
    "formats.base": (
        "The port behind which formats are: changes, the operations of one commit, stores and conflicts.",
        ["contracts.operations", "contracts.changes", "contracts.store"],
    ),
    "formats.filesystem": (
        "Files wherever they lie, and one writer at a time among processes that share a disk.\n\n"
        "Delta leaves it to the file system that a log entry is written once. A local one checks and then renames, so two\n"
        "processes could both believe that they wrote it. HDFS and most object stores guard that themselves.",
        ["state.folders", "dataset.lock", "stores.lock"],
    ),
    "formats.log": (
        "The log of whatever is at a path, read without a JVM: a table's or a view's, its changes and its watermarks.\n\n"
        "A view's record says that its name was a view at its last run; without it the view's query is checked once more.",
        ["state.logs", "state.changed", "state.views", "state.watermarks"],
    ),
    "formats.history": (
        "Commits as lines: what each did, to how many rows exactly, and which of them belong together.",
        ["state.counting", "state.parts", "state.history"],
    ),
    "formats.rows": (None, ["state.rows"]),
    "formats.registry": (None, ["stores.opened"]),
    "formats.delta.log": (None, ["state.delta_log"]),
    "formats.delta.statistics": (
        "What the statistics in a Delta log say: which files can hold certain keys, and the first and last times.\n\n"
        "They still know rows that were deleted since, and times are cut to milliseconds; a run asks the rows.",
        ["state.pruning", "state.times"],
    ),
    "formats.delta.store": (None, ["stores.delta"]),
    "formats.delta.small": (None, ["stores.delta_whole"]),
    "formats.delta.guards": (
        "What a write to a Delta table needs of its place: a log safe from two writers, and no files left by failures.\n\n"
        "On S3 Delta's default LogStore looks whether a log entry is there and then writes it, in one process only: of two\n"
        "drivers that commit at once the second overwrites the entry of the first, and both report success.",
        ["stores.guarded", "stores.left"],
    ),
    "formats.parquet.folder": (
        "The folder of a dataset on disk and the entries of its log. Each effect of the protocol is one call here.",
        ["dataset.entries", "dataset.folder"],
    ),
    "formats.parquet.protocol": (None, ["dataset.protocol"]),
    "formats.parquet.files": (
        "Single files of a dataset: the partition values that their paths say, and errors that name them.",
        ["dataset.partitions", "dataset.unreadable"],
    ),
    "formats.parquet.footers": (None, ["dataset.footers"]),
    "formats.parquet.log": (None, ["state.dataset_log"]),
    "formats.parquet.catalog": (None, ["stores.parquet.naming"]),
    "formats.parquet.compaction": (None, ["dataset.compacting"]),
    "formats.parquet.reading": (
        "Reads the files of one commit of a dataset, by their names.\n\n"
        "A frame is lazy: its files may have gone by the time that somebody runs it, in a call in which Tidemill has no\n"
        "part. PySpark makes Python's errors of Java's in one function. As Delta does for its own errors, it is replaced\n"
        "here by one that asks first whether the error is about a file of a dataset; all else is left to it.",
        ["stores.parquet.watching", "stores.parquet.reading"],
    ),
    "formats.parquet.staging": (
        "Stages what an operation does to a dataset: new files, and files rewritten by Arrow; or only counts it.",
        ["stores.parquet.staging", "stores.parquet.rehearsing"],
    ),
    "formats.parquet.direct": (None, ["stores.parquet.direct"]),
    "formats.parquet.store": (None, ["stores.parquet.store"]),
    "formats.parquet.worker.arrow": (
        "Rows and types of Parquet files in Arrow: codecs, calendars, types to work on, rows fitted to a schema.\n\n"
        "Sent to Spark's workers by value, so it imports nothing of Tidemill outside this package.",
        ["dataset.codecs", "dataset.calendars", "dataset.kinds", "dataset.fitting"],
    ),
    "formats.parquet.worker.files": (
        "Files that are there and files that are new: how they were written, and rows written like them.",
        ["stores.parquet.worker.outputs", "stores.parquet.worker.originals", "stores.parquet.worker.writing"],
    ),
    "formats.parquet.worker.rewriting": (
        "A file written again with some of its rows replaced or gone; and the keys of a small change, found in a file.\n\n"
        "A small change lies in a file of its own that all workers read; its columns are flat, and its keys are distinct\n"
        "by their bits.",
        ["stores.parquet.worker.rewriting", "stores.parquet.worker.matching"],
    ),
    # ledger
    "ledger.ledger": (
        "The ledger: a SQLite file of runs and steps, for people and for `tidemill status` and `tidemill runs`.\n\n"
        "It decides nothing. What a table has processed stands in the table's own log; a ledger that is deleted,\n"
        "damaged or unwritable costs history that `rebuild` can read back from there, and never a run.\n\n"
        "A run is written when it starts, a step when it starts and when it ends. As long as a run lasts, its process holds\n"
        "a lock on a file beside the ledger, which the kernel frees however that process ends: a run that has not ended and\n"
        "whose lock is free was interrupted.",
        ["state.ledger_tables", "state.ledger"],
    ),
    "ledger.past": (None, ["state.past"]),
    # merge
    "changes.check_results": (
        "How checks and expectations fared, in words: results that need no Spark.",
        ["change.checked", "run.steps.expected"],
    ),
    "changes.columns": (
        "Fits the columns of a change to the table's: by name without case, cast where nothing is lost.",
        ["change.types", "change.columns"],
    ),
    "changes.compare": (
        "When two rows are the same, null-safe; and keys that can be trusted: none NULL, none twice.",
        ["change.settled", "change.compare", "change.keys"],
    ),
    "changes.profile": (
        "One pass over a change that tells all that is needed to check it and to prune by it; cursor values exact.",
        ["change.cursors", "change.profile"],
    ),
    "changes.match": (
        "Matches a change with the rows of its target: who has the same key, what differs, what is new, and where.",
        ["change.meeting", "change.placing"],
    ),
    "changes.compile": (
        "Compiles a strategy and a change to one operation, or to none when nothing differs.\n\n"
        "Protected tables refuse a change that removes rows which an upsert would keep.",
        ["change.operation", "change.merge", "change.protecting"],
    ),
    "changes.apply": (
        "What rows become when a change is applied to them, and several sources as one change. Writes nothing.",
        ["change.entering", "change.applied", "change.combined"],
    ),
    "changes.small": (None, ["change.whole"]),
    "changes.checks": (
        "Runs checks on rows: those that are about to enter a table, or all that it holds.",
        ["change.samples", "change.violations", "change.checking"],
    ),
    # join
    "join.__init__": (None, ["join"]),
    "join.rows": (
        "The join itself: pairs, outdated and waiting rows of one window, as one Spark join and a filter.",
        ["join.ticks", "join.rows"],
    ),
    "join.call": (
        "One call of `incremental_join`, from its arguments to its rows: columns, keys and the two sides.",
        ["join.columns", "join.conditions", "join.sides", "join.call"],
    ),
    "join.arrivals": (
        "How far apart the two rows of a match came: what look back and look forward are chosen by.",
        ["join.arrivals", "run.producers.arrivals"],
    ),
    # execution
    "execution.runner": (
        "Walks a plan: steps that do not wait for each other run at once, and a failed one stops what waits for it.",
        ["run.upkeep.describe", "run.runner"],
    ),
    "execution.results": (
        "What a run tells while it lasts, what one step did, and when a step has nothing to do.",
        ["run.results", "run.events"],
    ),
    "execution.journal": (
        "Keeps runs and commands in the project's ledger while they last, however they end.",
        ["run.keeping", "run.kept"],
    ),
    "execution.catalog": (
        "What the names in queries and functions stand for: tables by their paths, or names in Spark's catalog.\n\n"
        "A name is given for the length of a run, counted, and taken away by the last run that uses it.",
        ["run.names", "run.catalog"],
    ),
    "execution.views": (None, ["run.views"]),
    "execution.retry": (None, ["run.retry"]),
    "execution.step": (None, ["run.steps.step"]),
    "execution.record": (
        "What a step writes down of itself: the record of its commit, and a copy that log clean-up does not reach.",
        ["run.steps.recording", "run.steps.anchor"],
    ),
    "execution.prepare": (
        "From the rows of a source to a change that can be trusted: filtered, aligned, settled, profiled, checked.\n\n"
        "Keys that stand in order in their files need no grouping: Arrow sees that in the key column alone, a row group at a\n"
        "time, and stops where it is not so.",
        ["run.steps.in_order", "run.steps.prepare"],
    ),
    "execution.reading": (
        "The window of a table's next run, and errors of a source while the rows of that window are read.",
        ["run.steps.reading", "run.steps.windows"],
    ),
    "execution.checks": (
        "Checks run on a change before its commit, on views when they are made, and on all the rows of a table.\n\n"
        "Rows that break one of severity error never enter a table, and nothing is made of a view that has such rows.",
        ["run.steps.checks", "verify.checks"],
    ),
    "execution.functions": (
        "A table that a function keeps: each batch of new dates is one commit, after its expectations are met.",
        ["run.steps.expecting", "run.steps.fetching"],
    ),
    "execution.load_rows": (
        "The rows of several LOADs: each source read as if it were alone, then put together where keys meet.\n\n"
        "Stored rows do not say where they came from: the keys in doubt, and only these, are looked up in the sources.",
        ["run.producers.loads", "run.steps.meeting"],
    ),
    "execution.loads": (
        "A step of several LOADs: each source has its own progress, and what they give is one change.\n\n"
        "A source is planned as if it were alone. All that is read is read from the lowest start on: the sources are then\n"
        "one source, whose newest rows are known, and no stored row has to tell where it came from (ADR 18).",
        ["run.steps.recomputed", "run.steps.loads"],
    ),
    "execution.modes": (
        "Other ways through a step: a backfill in batches, a full refresh, and a rehearsal that writes nothing.",
        ["run.steps.backfill", "run.steps.rebuild", "run.steps.rehearse"],
    ),
    "execution.load_parts": (None, ["run.producers.several"]),
    "execution.producers": (
        "What gives a table its rows: a query, a function, outside data by its name. Spark is imported by its rows.",
        ["run.producers.outside", "run.producers.function", "run.producers.query"],
    ),
    "execution.function_rows": (
        "What a function gives, as one frame under its declared schema; what does not fit is reported by row and column.",
        ["run.producers.typed", "run.producers.given"],
    ),
    "execution.joins": (None, ["run.producers.join"]),
    "execution.join_rows": (None, ["run.producers.join_rows"]),
    "execution.exports.options": (None, ["run.exports.options"]),
    "execution.exports.memory": (None, ["run.exports.memory"]),
    "execution.exports.files": (
        "Exports to files: written whole in a hidden folder beside the target, then moved into place.",
        ["run.workplace", "run.exports.files"],
    ),
    "execution.exports.database": (
        "Exports to databases: PostgreSQL by COPY in one transaction, others as far as Spark's JDBC goes.\n\n"
        "Spark's own JDBC would commit each partition by itself, and leave a staging table behind when it is killed.",
        ["run.exports.postgres", "run.exports.database"],
    ),
    "execution.exports.export": (None, ["run.exports.export"]),
    # maintenance
    "maintenance.backup": (
        "Copies of a table with its progress, and ways back to one or to an older version: rows and progress together.",
        ["run.upkeep.restore", "run.upkeep.backup"],
    ),
    "maintenance.files": (None, ["run.upkeep.files"]),
    "maintenance.repair": (
        "What is set right by hand: keys that are NULL or stand twice, and watermarks, each in one commit.",
        ["run.upkeep.repair", "run.upkeep.watermarks"],
    ),
    # verify
    "verify.result": (None, ["verify.result"]),
    "verify.rules": (
        "What of a table is compared, by its strategy, and what to do about each difference.",
        ["verify.rules", "verify.remedies"],
    ),
    "verify.rows": (
        "Compares two sets of rows with Spark, by keys or as multisets, floats within a tolerance.\n\n"
        "A sum of floats depends on the order in which Spark adds them, which differs from run to run.",
        ["verify.closeness", "verify.rows"],
    ),
    "verify.table": (
        "Verifies one table, however it is kept, and keeps what was found in the project's ledger.",
        ["verify.verifying", "verify.loads", "verify.fetched", "verify.table", "verify.keeping"],
    ),
    # suggest, graphs
    "suggest.advice": (
        "From facts to advice: a cursor, keys and a mode, each with its reason, as lines ready to paste. Knows no Spark.",
        ["suggest.names", "suggest.advice", "suggest.source"],
    ),
    "suggest.facts": (
        "What a sample of a source says of its columns; whatever goes wrong there is what is said of it.",
        ["suggest.facts", "suggest.look"],
    ),
    "graphs.__init__": (None, ["drawing"]),
    "graphs.picture": (
        "What a picture of a project shows, and the picture as lines of text and as a Mermaid flowchart.",
        ["drawing.boxes", "drawing.tree", "drawing.mermaid"],
    ),
    "graphs.svg": (
        "A graph as an SVG, boxes in layers from left to right with few crossings; and a histogram.",
        ["drawing.layers", "drawing.svg", "drawing.histogram"],
    ),
    # spark
    "spark.places": (
        "Where the engine keeps what it fetches, builds and logs, and what is reported when a disk is full.",
        ["engine.places", "engine.room"],
    ),
    "spark.jars": (
        "The Java that Spark runs on, and the jars that Delta and databases need: fetched once, checked by their hashes.\n\n"
        "Delta's two come with the engine, a database's driver when the first source or export asks for it.",
        ["engine.java", "engine.jars"],
    ),
    "spark.jvm": (
        "Starts the JVM of the embedded engine, silently, and connects PySpark to it; Ctrl-C cancels its jobs.\n\n"
        "PySpark would start it through two shell scripts and a JVM that computes the command line; here the command is\n"
        "known, which saves that time, keeps a foreign SPARK_HOME out, and gives the process's output to a file. Its own\n"
        "handler of Ctrl-C asks the JVM from within the call that it interrupts, which breaks the connection.",
        ["engine.memory", "engine.interrupt", "engine.gateway"],
    ),
    "spark.archive": (None, ["engine.archive"]),
    "spark.training": (None, ["engine.training"]),
    "spark.settings": (
        "Spark settings: those of the embedded engine, those that a step's session takes over, and its time zone.",
        ["engine.settings", "engine.zone"],
    ),
    "spark.session": (
        "The Spark session a step runs on: the caller's, a Connect server's, or an embedded one that needs only Java.",
        ["engine.remote", "engine.session", "engine.drivers"],
    ),
    "spark.errors": (None, ["engine.translate"]),
    "spark.doctor": (None, ["engine.doctor"]),
    # api
    "api.tables": (None, ["api"]),
    "api.maintenance": (
        "Backup, restore and drop of tables, kept in the ledger: the same for the command line and for Python.",
        ["run.upkeep.drop", "upkeep"],
    ),
    "api.project": (None, ["project_api"]),
    "api.results": (None, ["run_result"]),
    "api.workspace": (None, ["workspace.workspace"]),
    "api.planning": (
        "What a project is worked on with, what its tables will not see, and what a run would do; without Spark.",
        ["workspace.means", "workspace.warnings", "workspace.foreseen", "workspace.planning"],
    ),
    "api.questions": (None, ["workspace.looking"]),
    # cli
    "cli.main": (None, ["cli.main"]),
    "cli.options": (
        "Options that commands share, and tables as users name them: a path, or the name of a table of the project.",
        ["cli.options", "cli.naming"],
    ),
    "cli.render": (
        "How things look on the terminal: marks, colours, lines and tables that fit its width, errors and JSON.",
        ["cli.fitting", "cli.tables", "cli.render"],
    ),
    "cli.console": (
        "The one console: every line, the display of what is being done now, and work that Ctrl-C ends at once.",
        ["cli.console", "cli.live", "cli.interrupts"],
    ),
    "cli.run": (
        "`tidemill run`, `plan`, `validate`, `list` and `compile`: a project, or one pipeline file.",
        ["cli.run", "cli.compile"],
    ),
    "cli.outcome": (None, ["cli.outcome"]),
    "cli.merge": (None, ["cli.merge"]),
    "cli.verify": (
        "`tidemill verify` and `tidemill test`: incremental equals full, and checks on all rows.",
        ["cli.verify", "cli.checks"],
    ),
    "cli.maintenance": (
        "`tidemill backup`, `restore`, `drop`, `check`, `dedup`, `compact`, `vacuum` and `recover`.",
        ["cli.backup", "cli.restore", "cli.drop", "cli.datasets"],
    ),
    "cli.history": (
        "`tidemill history` and `tidemill runs`: the commits of a table, and what was run; read without a JVM.",
        ["cli.history", "cli.runs"],
    ),
    "cli.status": (
        "`tidemill status` and `tidemill state`: tables, rows, watermarks, last runs, and what is known of each table.",
        ["cli.status", "cli.state"],
    ),
    "cli.watermarks": (None, ["cli.watermarks"]),
    "cli.show": (
        "`tidemill show`, `suggest` and `join-stats`: rows of tables and sources, looked at and left as they are.",
        ["cli.values", "cli.show", "cli.suggest", "cli.join_stats"],
    ),
    "cli.graph": (None, ["cli.graph"]),
    "cli.picture": (None, ["cli.picture"]),
    "cli.setup": (
        "`tidemill init`, `doctor` and `setup`: a project that runs as it is, and what the engine needs on this machine.",
        ["cli.sample", "cli.init", "cli.doctor"],
    ),
}

# Names in texts that mean a whole room: `tidemill.change` -> `tidemill.merge`.
ROOMS = {
    "declare": "model",
    "contracts": "formats",
    "language": "frontends.pipeline",
    "models": "frontends.models",
    "project": "frontends.project",
    "plan": "planning",
    "statements": "planning.statements",
    "change": "changes",
    "stores": "formats",
    "stores.parquet": "formats.parquet",
    "stores.parquet.worker": "formats.parquet.worker",
    "state": "formats",
    "dataset": "formats.parquet",
    "run": "execution",
    "run.steps": "execution",
    "run.producers": "execution",
    "run.exports": "execution.exports",
    "run.upkeep": "maintenance",
    "engine": "spark",
    "drawing": "graphs",
    "workspace": "api.workspace",
    "sources": "sources",
    "sources.files": "sources.files",
    "sources.http": "sources.http",
    "verify": "verify",
    "suggest": "suggest",
    "cli": "cli",
}

DATA_FILES = {"engine/log4j2.properties": "spark/log4j2.properties"}

RENAMES = {
    ("join.columns", "_described"): "_label",
    ("join.sides", "_described"): "_time_label",
    ("plan.refusals", "_missing"): "_missing_table",
    ("run.upkeep.watermarks", "_record"): "_watermark_record",
    ("cli.suggest", "_show"): "_show_suggestion",
    ("cli.doctor", "_show"): "_show_health",
    ("language.join_clauses", "_DEPTH"): "_CLAUSE_DEPTH",
    ("language.joins", "_SELECT"): "_NO_SELECT",
    ("plan.views", "_reason"): "_view_reason",
    ("cli.tables", "_GAP"): "_BETWEEN_COLUMNS",
    ("cli.restore", "show"): "show_restore",
    ("cli.backup", "show"): "show_backup",
    ("cli.backup", "_run"): "_run_backup",
    ("cli.restore", "_run"): "_run_restore",
    ("cli.checks", "_MARKS"): "_CHECK_MARKS",
    ("cli.checks", "_Shown"): "_ShownChecks",
    ("cli.checks", "_data"): "_check_data",
    ("cli.checks", "_table"): "_check_table",
    ("run.upkeep.backup", "_restore"): "_restore_from",
    ("sources.files.json_bytes", "_AT_A_TIME"): "_JSON_AT_A_TIME",
    ("sources.files.json_bytes", "_look"): "_look_at_json",
    ("sources.files.json_bytes", "_check"): "_check_json",
    ("cli.state", "HEADINGS"): "STATE_HEADINGS",
}

# Texts that follow from a move and that no rule can write: (target, old text, new text), each must be found once.
# PATCHED: (source, name) of the statements that they change; the proof lists those instead of failing.
PATCHED = [("stores.parquet.staging", "sent")]  # the modules that go to workers by value are one package now
PATCHES = [
    ("formats.parquet.staging", "for sent in (arrow, arrow, arrow, arrow, worker):\n    cloudpickle.register_pickle_by_value(sent)", "cloudpickle.register_pickle_by_value(worker)"),
    ("formats.parquet.staging", "from tidemill.formats.parquet.worker import (arrow)\n", ""),
    ("formats.base", "an event that `run/` answers", "an event that `execution` answers"),
]

LINTER = """
[[tool.importlinter.contracts]]
name = "Imports point one way"
type = "layers"
containers = ["tidemill"]
layers = [
    "cli",
    "(api)",
    "(verify) : (suggest) : (maintenance) : (graphs)",
    "(execution)",
    "(join)",
    "(changes) : (planning)",
    "(frontends) : (sources) : (ledger)",
    "(formats)",
    "spark",
    "(model)",
    "errors : (typing) : (display)",
]

[[tool.importlinter.contracts]]
name = "Declarations, plans and the ledger know no Spark"
type = "forbidden"
source_modules = ["tidemill.model", "tidemill.planning", "tidemill.ledger", "tidemill.graphs"]
forbidden_modules = ["pyspark"]

[[tool.importlinter.contracts]]
name = "What users write is read without Spark, and without what runs it"
type = "forbidden"
source_modules = [
    "tidemill.frontends.sql", "tidemill.frontends.pipeline", "tidemill.frontends.models",
    "tidemill.frontends.project", "tidemill.frontends.project_file", "tidemill.typing",
]
forbidden_modules = [
    "pyspark", "click", "rich",
    "tidemill.execution", "tidemill.planning", "tidemill.changes", "tidemill.sources", "tidemill.formats",
    "tidemill.ledger", "tidemill.spark",
]
"""

# The same for files outside of src: (path, old text, new text), after their module names are rewritten.
OUTSIDE_PATCHES = [
    ("tests/engine/test_connect.py", 'SOURCES / "engine"', 'SOURCES / "spark"'),
    ("docs/adr/0002-locked-dependencies-without-registry-addresses.md", "`engine/jars.py`", "`spark/jars.py`"),
    ("docs/adr/0018-several-loads-into-one-table.md", "`change/applied.py`", "`changes/apply.py`"),
    (
        "docs/datasets-protocol.md",
        "object store. `src/tidemill/formats/parquet/protocol.py` is the whole protocol, about 150 lines: functions that yield the name\nof a step before each effect.",
        "object store. `src/tidemill/formats/parquet/protocol.py` is the whole protocol, about 150 lines: functions that yield\nthe name of a step before each effect.",
    ),
    (
        "tests/dataset/test_protocol.py",
        "The steps are those of the code that runs (`tidemill.formats.parquet.protocol`), on a folder in memory. The dataset has two\nfiles; one writer rewrites both, the other rewrites one and brings a third.",
        "The steps are those of the code that runs (`tidemill.formats.parquet.protocol`), on a folder in memory. The dataset\nhas two files; one writer rewrites both, the other rewrites one and brings a third.",
    ),
]

# The table of rooms in CONTRIBUTING.md, from its first row to its last.
CONTRIBUTING = """
| `model/` | what users declare, whichever way in they take, and what a table's log says: frozen dataclasses, no Spark |
| `frontends/` | the files that users write, read into declarations: `project` (`tidemill.toml`), `pipeline/` (SQL pipelines), `models/` (folders of models and Python functions), `sql/` (questions to queries) |
| `planning/` | which window a run reads, and why; what it sends, as SQL that can be read; what is refused before it begins. No Spark |
| `sources/` | where rows come from: `files/`, databases, `http/`, frames, functions |
| `formats/` | a table format behind a small port: `delta/`, and plain `parquet/` with a commit protocol of its own; logs read without a JVM |
| `changes/` | how a strategy turns rows into one operation: keys, columns, comparison, counts. (Not `merge/`: `tidemill.merge` is the public call) |
| `join/` | the incremental join of two growing tables |
| `execution/` | walks a plan; the only place that tries again. One step from source to commit; queries, functions and joins as sources; `exports/` |
| `maintenance/` | backups, ways back, repairs, compaction, watermarks set by hand |
| `ledger/` | the SQLite file of runs and steps, rebuildable from the tables |
| `verify/`, `suggest/` | a table beside its full rebuild; how a source could be read incrementally |
| `graphs/` | a graph as a tree, as SVG, as Mermaid |
| `spark/` | the embedded Spark: Java, jars, start-up archive, translation of errors |
| `api/` | the calls users make from Python; a project with all that it declares, and what a command plans, runs and asks |
| `cli/` | one module per command group; `render.py` is the one place for looks |
"""
