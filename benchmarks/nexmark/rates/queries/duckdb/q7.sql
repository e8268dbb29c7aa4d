SELECT b.auction, b.price, b.bidder, epoch_ms(b.date_time) AS dt, b.extra FROM bid b JOIN (
  SELECT max(price) AS mx,
    epoch_ms(date_time) - epoch_ms(date_time) % 10000 + 10000 AS e FROM bid GROUP BY epoch_ms(date_time) -
    epoch_ms(date_time) % 10000) w
 ON b.price = w.mx WHERE epoch_ms(b.date_time) BETWEEN w.e - 10000 AND w.e
