-- A pipeline: sources, tables that follow them, exports. Paths start at the folder of tidemill.toml.

-- Orders come as files, a new one each day. A corrected order comes again with a later updated_at; a row may be
-- up to two hours late. So each run reads what is not older than the last updated_at it has seen, minus two hours.
SOURCE orders TYPE CSV PARAMS { "path": "data/orders/*.csv", "types": { "amount": "decimal(10,2)" } }
  INCREMENTAL BY updated_at LOOKBACK 2 HOURS;

-- Customers come as one file that holds them all.
SOURCE customers TYPE CSV PARAMS { "path": "data/customers.csv" };

LOAD raw_orders FROM orders MODE MERGE ON order_id;
LOAD raw_customers FROM customers;

-- A plain SELECT, which needs no key: the table is what the query gives. A run follows what has changed in either of the
-- tables, or computes the query whole where that is faster, and writes only what differs.
CREATE MATERIALIZED VIEW daily AS
SELECT date(o.created_at) AS day, c.region, count(*) AS orders, sum(o.amount) AS amount
FROM raw_orders AS o JOIN raw_customers AS c ON c.customer_id = o.customer_id
GROUP BY 1, 2;

EXPORT SELECT * FROM daily ORDER BY day, region TO "out/daily.csv" TYPE CSV;
