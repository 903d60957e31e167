SELECT player_id, name, team, count(*) AS games, sum(goals) AS goals, sum(assists) AS assists, sum(points) AS points
FROM silver.player_games
GROUP BY player_id, name, team
