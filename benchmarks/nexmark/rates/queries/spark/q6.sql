SELECT seller, (sum(price) OVER w div count(*) OVER w) AS avg_price FROM (
  SELECT a.id, a.seller, b.price, b.date_time,
   row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.date_time) AS rn
  FROM auction a JOIN bid b ON a.id = b.auction WHERE b.date_time BETWEEN a.date_time AND a.expires)
 WHERE rn <= 1 WINDOW w AS (PARTITION BY seller ORDER BY date_time ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
