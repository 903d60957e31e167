-- One row per order, as it is now. Those that are no longer active stay, with active = false: a filter here would hide
-- the change from the merge, and leave the old row.
SELECT id, customer, region, status, active, amount, created_at, updated_at
FROM t_project.source_table
