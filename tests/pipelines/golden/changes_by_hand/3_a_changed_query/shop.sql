-- Two loads with different answers to a new column, and queries with and without a window.
SOURCE events TYPE CSV PARAMS { "path": "data/events.csv" } INCREMENTAL BY at LOOKBACK 1 HOUR;

LOAD strict FROM events MODE MERGE ON id;
LOAD growing FROM events MODE MERGE ON id OPTIONS { "on_schema_change": "append_new_columns" };

CREATE TABLE per_day MODE INCREMENTAL_MERGE ON day AS
SELECT date(at) AS day, 10 * count(*) AS events FROM growing GROUP BY 1;

CREATE TABLE per_hour MODE INCREMENTAL BY hour AS
SELECT date_trunc('HOUR', at) AS hour, 10 * count(*) AS events FROM growing
WHERE at >= @start_dt AND at < @end_dt GROUP BY 1;
