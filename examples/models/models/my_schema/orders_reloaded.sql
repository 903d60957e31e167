-- Active orders by their last change; each run is given the day from which they are rebuilt.
SELECT id, region, amount, updated_at
FROM t_project.source_table
WHERE active
