-- One source kept in two ways, a small one that is replaced, and queries over them.
SOURCE orders TYPE CSV PARAMS { "path": "data/orders/*.csv", "types": { "amount": "decimal(10,2)" } }
  INCREMENTAL BY updated_at LOOKBACK 2 HOURS;
SOURCE customers TYPE CSV PARAMS { "path": "data/customers.csv" };

LOAD orders_now FROM orders MODE MERGE ON order_id;
LOAD orders_seen FROM orders MODE APPEND;
LOAD customers_now FROM customers;

CREATE TABLE hourly MODE INCREMENTAL BY hour LOOKBACK 2 HOURS AS
SELECT date_trunc('HOUR', updated_at) AS hour, count(*) AS orders
FROM orders_seen
WHERE updated_at >= @start_dt AND updated_at < @end_dt
GROUP BY 1;

CREATE TABLE per_customer MODE INCREMENTAL_MERGE ON customer AS
SELECT c.name AS customer, count(*) AS orders, sum(o.amount) AS amount
FROM orders_now AS o JOIN customers_now AS c ON c.customer_id = o.customer_id
GROUP BY 1;

EXPORT SELECT * FROM per_customer ORDER BY customer TO "out/per_customer.csv" TYPE CSV;
