WITH played AS (
  SELECT home AS team, home_score AS scored, away_score AS conceded FROM silver.games WHERE status = 'final'
  UNION ALL
  SELECT away, away_score, home_score FROM silver.games WHERE status = 'final'
)
SELECT team,
       count(*) AS played,
       count_if(scored > conceded) AS won,
       count_if(scored = conceded) AS tied,
       2 * count_if(scored > conceded) + count_if(scored = conceded) AS points,
       sum(scored) - sum(conceded) AS goal_difference
FROM played
GROUP BY team
