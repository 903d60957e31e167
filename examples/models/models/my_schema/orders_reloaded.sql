-- Active orders by their last change; whoever runs it says from which day on they are taken anew.
SELECT id, region, amount, updated_at
FROM t_project.source_table
WHERE active
