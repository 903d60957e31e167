from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "description": "Active orders, computed again from a given day on",
    "materialization": "incremental",
    "incremental": {
        "strategy": "delete_insert",
        "delete_insert": {
            "where_condition": "updated_at >= @start_date",
            "time_column": "updated_at",
            "start_date": "@start_date",
        },
    },
    "tags": ["orders", "reloaded"],
}
