from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "description": "Every order that was ever placed",
    "materialization": "incremental",
    "incremental": {
        "strategy": "append",
        "append": {
            "time_column": "created_at",
            "start_date": "2024-01-01",
            "lookback": "7 days",
        },
    },
    "checks": [{"unique": "id"}],
    "reset_allowed": False,
    "tags": "orders",
}
