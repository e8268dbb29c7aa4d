SELECT id, item_name, description, initial_bid, reserve, adt, exp_ms, seller, category, aextra, auction, bidder,
    price, bdt, bextra FROM (
  SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, epoch_ms(a.date_time) AS adt,
    epoch_ms(a.expires) AS exp_ms,
   a.seller, a.category, a.extra AS aextra, b.auction, b.bidder, b.price, epoch_ms(b.date_time) AS bdt,
    b.extra AS bextra,
   row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS rn
  FROM auction a JOIN bid b ON a.id = b.auction WHERE b.date_time BETWEEN a.date_time AND a.expires) WHERE rn <= 1
