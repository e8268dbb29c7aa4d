WITH c AS (SELECT auction, window.start AS s, count(*) AS num FROM bid
  GROUP BY auction, window(date_time, '10 seconds', '2 seconds')), m AS (SELECT s, max(num) AS mx FROM c GROUP BY s)
 SELECT c.auction, c.num FROM c JOIN m ON c.s = m.s AND c.num >= m.mx
