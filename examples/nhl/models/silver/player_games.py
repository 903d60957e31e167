from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "description": "A row per player and game, with the player's name",
    "materialization": "incremental",
    "incremental": {
        "strategy": "merge",
        "merge": {"unique_key": ["player_id", "game_id"], "time_column": "game_date", "lookback": "2 days"},
    },
}
