SELECT auction, bidder, 908 * price AS price, CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
  WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS ty,
  unix_millis(date_time) AS dt, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
 FROM bid WHERE 908 * price > 1000000000 AND 908 * price < 50000000000
