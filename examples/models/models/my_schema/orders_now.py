from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "description": "Orders, one row each, as they are now",
    "materialization": "incremental",
    "incremental": {
        "strategy": "merge",
        "merge": {
            "unique_key": ["id"],
            "time_column": "updated_at",
            "start_date": "auto",
            "lookback": "3 hours",
        },
    },
    "checks": [
        {"not_null": ["id", "customer", "updated_at"]},
        {"unique": "id"},
        {"accepted_values": {"column": "status", "values": ["open", "paid", "sent"]}},
        "amount >= 0",
        {"condition": "amount < 1000", "severity": "warn", "name": "no order is that large"},
    ],
    "tags": "orders",
}
