"""Questions to SQL, answered by sqlglot's trees and scopes: this is the door.

`parse_query` gives the tree, its scopes, the tables that it reads, and the columns that each scope gives. The others
are questions to that: the inputs, the output columns, those that are volatile, the lineage of a column.
"""

from tidemill.frontends.sql.binding import bind_tables, syntax_error, unparsed
from tidemill.frontends.sql.grouping import row_key
from tidemill.frontends.sql.lineage import losing_parts, missed_inputs
from tidemill.frontends.sql.scopes import QueryTree, columns_of, columns_of_ddl, inputs_of, output_columns, parse_query
from tidemill.frontends.sql.volatile import reads_clock, sums_of, unrepeatable, volatile_columns

__all__ = [
    "QueryTree",
    "bind_tables",
    "columns_of",
    "columns_of_ddl",
    "inputs_of",
    "losing_parts",
    "missed_inputs",
    "output_columns",
    "parse_query",
    "reads_clock",
    "row_key",
    "sums_of",
    "syntax_error",
    "unparsed",
    "unrepeatable",
    "volatile_columns",
]
