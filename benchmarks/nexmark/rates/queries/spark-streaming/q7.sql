SELECT b.auction, b.price, b.bidder, unix_millis(b.date_time) AS dt, b.extra FROM bid b JOIN (
  SELECT max(price) AS mx, window FROM bid GROUP BY window(date_time, '10 seconds')) w
 ON b.price = w.mx AND b.date_time BETWEEN w.window.start AND w.window.end
