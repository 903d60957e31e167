SELECT gameId AS game_id, gameDate AS game_date, startTime AS starts_at, home, away,
       homeScore AS home_score, awayScore AS away_score, 'final' AS status
FROM bronze.games
UNION ALL
SELECT gameId, gameDate, startTime, home, away, NULL, NULL, 'upcoming'
FROM bronze.schedule
WHERE gameId NOT IN (SELECT gameId FROM bronze.games)
