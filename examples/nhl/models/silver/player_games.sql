SELECT s.playerId AS player_id, s.gameId AS game_id, s.gameDate AS game_date, p.name, s.team, p.position,
       s.goals, s.assists, s.goals + s.assists AS points, s.shots, s.iceTime AS ice_time
FROM bronze.player_game_stats AS s
LEFT JOIN bronze.skaters AS p ON p.playerId = s.playerId
WHERE s.situation = 'all'
