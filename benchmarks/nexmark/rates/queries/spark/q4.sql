SELECT category, (sum(final) div count(*)) AS final FROM (
 SELECT max(b.price) AS final, a.category FROM auction a JOIN bid b ON a.id = b.auction
 WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category) GROUP BY category
