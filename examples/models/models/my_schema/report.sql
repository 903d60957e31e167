-- metadata: {"description": "Active orders by region, rebuilt by each run",
--            "checks": [{"not_null": "region"}, {"row_count": {"min": 1}}]}
SELECT region, count(*) AS orders, sum(amount) AS amount
FROM my_schema.orders_now
WHERE active
GROUP BY region
