-- A source without a cursor, with a key of two columns.
SOURCE customers TYPE CSV PARAMS { "path": "data/customers.csv" };

LOAD kept FROM customers MODE MERGE ON region, customer_id;
LOAD synced FROM customers MODE FULL_MERGE ON region, customer_id;
