"""What `change/`, `stores/`, `state/` and `run/` share: records, snapshots, changes, operations, the store's port."""
