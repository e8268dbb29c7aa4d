SELECT p.id, p.name, unix_millis(p.window.start) AS stime FROM (
  SELECT id, name, window FROM person GROUP BY id, name, window(date_time, '10 seconds')) p JOIN (
  SELECT seller, window FROM auction GROUP BY seller, window(date_time, '10 seconds')) a
 ON p.id = a.seller AND p.window = a.window
