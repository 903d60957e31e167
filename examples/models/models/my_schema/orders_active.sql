-- One row per order that is still active, as it is now.
SELECT id, customer, region, status, amount, created_at, updated_at
FROM t_project.source_table
WHERE active
