SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" } INCREMENTAL BY updated_at;

LOAD raw_orders FROM orders MODE MERGE ON order_id;
CREATE TABLE daily AS SELECT date(updated_at) AS day, count(*) AS orders FROM raw_orders GROUP BY 1;
CREATE TABLE weekly AS SELECT date_trunc('WEEK', dya) AS week, sum(orders) AS orders FROM daily GROUP BY 1;
CREATE TABLE report AS SELECT max(orders) AS orders FROM weekly;
CREATE TABLE busiest AS SELECT max(orders) AS orders FROM daily;
