-- Secrets in params, in queries and in paths; some steps fail with them in hand.
SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" } INCREMENTAL BY updated_at;
SOURCE files TYPE CSV PARAMS { "path": "data/${env:SHOP_FOLDER}/gone.csv" };
SOURCE db TYPE POSTGRES PARAMS {
  "url": "postgresql://localhost:1/shop", "table": "orders", "user": "shop", "password": "${env:SHOP_PASSWORD}"
};

LOAD raw_orders FROM orders MODE MERGE ON order_id;
LOAD raw_files FROM files;
LOAD raw_db FROM db;
CREATE TABLE filtered AS SELECT * FROM raw_orders WHERE string(order_id) <> '${SHOP_TOKEN}';
CREATE TABLE failing AS SELECT no_such_column FROM raw_orders WHERE string(order_id) = '${SHOP_TOKEN}';
CREATE TABLE casting AS SELECT CAST('${SHOP_TOKEN}' AS INT) AS n FROM raw_orders;
EXPORT filtered TO "out/${env:SHOP_FOLDER}/filtered.csv" TYPE CSV;
