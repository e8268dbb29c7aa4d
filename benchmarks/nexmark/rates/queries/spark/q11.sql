WITH g AS (SELECT bidder, t, sum(n) OVER (PARTITION BY bidder ORDER BY t ROWS UNBOUNDED PRECEDING) AS g FROM (
   SELECT bidder, unix_millis(date_time) AS t,
    CASE WHEN unix_millis(date_time) - lag(unix_millis(date_time)) OVER (PARTITION BY bidder ORDER BY date_time) >
    10000 THEN 1 ELSE 0 END AS n FROM bid))
 SELECT bidder, count(*) AS bid_count, min(t) AS starttime, max(t) + 10000 AS endtime FROM g GROUP BY bidder, g
