-- Two feeds of the same transfers, each by its own processing day: the ledger of the bank, and the payment engine.
SOURCE bank TYPE CSV PARAMS {
    "path": "data/bank/*.csv",
    "schema": "transaction_id STRING, reference STRING, process_date DATE, amount DECIMAL(10,2)"
} INCREMENTAL BY process_date;
SOURCE sepa TYPE CSV PARAMS {
    "path": "data/sepa/*.csv",
    "schema": "message_id STRING, reference STRING, process_date DATE, amount DECIMAL(10,2)"
} INCREMENTAL BY process_date;

LOAD bank_transactions FROM bank MODE APPEND;
LOAD sepa_transactions FROM sepa MODE APPEND;

-- A transfer may reach the payment engine up to 6 days before the ledger, and up to 10 days after it. What has no
-- partner by then is outdated, and delivered as such.
CREATE TABLE payments AS
INCREMENTAL LEFT JOIN bank_transactions AS a BY process_date WITH sepa_transactions AS b BY process_date
ON a.reference = b.reference LOOK BACK 6 DAYS LOOK FORWARD 10 DAYS
SELECT a.*, b.message_id, b.amount AS sepa_amount;
