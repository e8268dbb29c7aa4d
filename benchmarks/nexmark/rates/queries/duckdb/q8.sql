SELECT p.id, p.name, p.s AS stime FROM (
  SELECT id, name, epoch_ms(date_time) - epoch_ms(date_time) % 10000 AS s FROM person GROUP BY 1, 2, 3) p JOIN (
  SELECT seller, epoch_ms(date_time) - epoch_ms(date_time) % 10000 AS s FROM auction GROUP BY 1,
    2) a ON p.id = a.seller AND p.s = a.s
