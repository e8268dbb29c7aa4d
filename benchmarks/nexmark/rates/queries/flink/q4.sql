SELECT category, AVG(final) AS final FROM (
 SELECT MAX(b.price) AS final, a.category FROM auction a,
    bid b WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
 GROUP BY a.id, a.category) Q GROUP BY category
