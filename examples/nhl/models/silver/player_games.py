from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "description": "A row per player and game, with the player's name",
    "materialization": "incremental",
    # No time column: a window on the dates of games would miss players whose name or position changes.
    "incremental": {"strategy": "full_merge", "full_merge": {"unique_key": ["player_id", "game_id"]}},
}
