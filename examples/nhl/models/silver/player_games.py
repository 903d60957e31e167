from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "description": "A row per player and game, with the player's name",
    # A window on the dates of games would miss players whose name or position changes; a view follows both tables.
    "materialization": "materialized_view",
}
