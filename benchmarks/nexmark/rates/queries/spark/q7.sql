SELECT b.auction, b.price, b.bidder, unix_millis(b.date_time) AS dt, b.extra FROM bid b JOIN (
  SELECT max(price) AS mx,
    unix_millis(date_time) - unix_millis(date_time) % 10000 + 10000 AS e FROM bid GROUP BY unix_millis(date_time) -
    unix_millis(date_time) % 10000) w
 ON b.price = w.mx WHERE unix_millis(b.date_time) BETWEEN w.e - 10000 AND w.e
