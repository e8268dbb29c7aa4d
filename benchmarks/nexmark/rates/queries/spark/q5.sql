WITH c AS (SELECT auction, s, count(*) AS num FROM (
  SELECT auction, (unix_millis(date_time) - unix_millis(date_time) % 2000) - 2000 * k AS s FROM bid,
    (SELECT explode(array(0,1,2,3,4)) AS k))
  GROUP BY auction, s), m AS (SELECT s, max(num) AS mx FROM c GROUP BY s)
 SELECT c.auction, c.num FROM c JOIN m ON c.s = m.s AND c.num >= m.mx
