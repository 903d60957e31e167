-- A source without a cursor, with a key of two columns; what verify named is done.
SOURCE customers TYPE CSV PARAMS { "path": "data/customers.csv" };

LOAD kept FROM customers MODE FULL_MERGE ON region, customer_id;
LOAD synced FROM customers MODE FULL_MERGE ON region, customer_id;
