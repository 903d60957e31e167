-- metadata: {"materialization": "view"}
SELECT id, customer, amount FROM my_schema.orders_active WHERE amount >= 250
