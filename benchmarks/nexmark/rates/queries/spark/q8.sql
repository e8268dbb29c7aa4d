SELECT p.id, p.name, p.s AS stime FROM (
  SELECT id, name, unix_millis(date_time) - unix_millis(date_time) % 10000 AS s FROM person GROUP BY 1, 2, 3) p JOIN (
  SELECT seller, unix_millis(date_time) - unix_millis(date_time) % 10000 AS s FROM auction GROUP BY 1,
    2) a ON p.id = a.seller AND p.s = a.s
