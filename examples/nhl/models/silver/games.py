from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "description": "Every game once: those that are over with their score, those to come without",
    "materialization": "incremental",
    "incremental": {"strategy": "full_merge", "full_merge": {"unique_key": ["game_id"]}},
    "checks": [
        {"not_null": ["game_id", "game_date", "home", "away"]},
        {"accepted_values": {"column": "status", "values": ["final", "upcoming"]}},
        "status = 'upcoming' OR home_score IS NOT NULL",
    ],
}
