WITH c AS (SELECT auction, window, count(*) AS num FROM bid GROUP BY auction, window(date_time, '10 seconds', '2 seconds')),
 m AS (SELECT window, max(num) AS mx FROM c GROUP BY window)
 SELECT c.auction, c.num FROM c JOIN m ON c.window = m.window AND c.num >= m.mx
