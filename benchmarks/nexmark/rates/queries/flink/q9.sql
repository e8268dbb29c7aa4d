SELECT id, item_name, description, initial_bid, reserve, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    adt) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM adt) AS adt, CAST(TIMESTAMPDIFF(SECOND,
    TIMESTAMP '1970-01-01 00:00:00', expt) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM expt) AS exp_ms, seller,
    category, aextra, auction, bidder, price,
  CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    bdt) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM bdt) AS bdt, bextra FROM (
  SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS adt, a.expires AS expt, a.seller,
    a.category, a.extra AS aextra,
   b.auction, b.bidder, b.price, b.date_time AS bdt, b.extra AS bextra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time ASC) AS rn
  FROM auction a, bid b WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires) WHERE rn <= 1
