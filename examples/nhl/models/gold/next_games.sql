WITH coming AS (
  SELECT *, row_number() OVER (PARTITION BY home ORDER BY starts_at, game_id) AS turn
  FROM silver.games
  WHERE status = 'upcoming'
)
SELECT g.game_id, g.game_date, g.home, h.points AS home_points, g.away, a.points AS away_points
FROM coming AS g
LEFT JOIN gold.standings AS h ON h.team = g.home
LEFT JOIN gold.standings AS a ON a.team = g.away
WHERE g.turn = 1
