-- metadata: {"materialization": "view"}
SELECT id, customer, amount FROM my_schema.orders_now WHERE active AND amount >= 250
