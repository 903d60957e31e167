-- Every order that was ever placed. Nothing of it changes later, so rows are only added.
SELECT id, customer, region, created_at
FROM t_project.source_table
