WITH p AS (SELECT auction, s, count(*) AS n FROM (
  SELECT auction, unix_millis(date_time) - unix_millis(date_time) % 2000 AS s FROM bid) GROUP BY auction, s),
 c AS (SELECT auction, s, sum(n) AS num FROM (
  SELECT auction, s - 2000 * k AS s, n FROM p LATERAL VIEW explode(array(0,1,2,3,4)) AS k) GROUP BY auction, s),
 m AS (SELECT s, max(num) AS mx FROM c GROUP BY s)
 SELECT c.auction, c.num FROM c JOIN m ON c.s = m.s AND c.num >= m.mx
