SELECT auction, bidder, 908 * price AS price, CASE WHEN HOUR(date_time) >= 8 AND HOUR(date_time) <= 18 THEN 'dayTime'
 WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS ty,
    CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    date_time) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM date_time) AS dt, extra,
 CAST(CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS BIGINT) AS c_counts
 FROM bid WHERE 908 * price > 1000000000 AND 908 * price < 50000000000
