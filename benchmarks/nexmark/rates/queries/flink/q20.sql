SELECT B.auction, B.bidder, B.price, B.channel, B.url, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    B.date_time) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM B.date_time) AS bdt, B.extra AS bextra, A.item_name,
    A.description,
 A.initial_bid, A.reserve, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    A.date_time) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM A.date_time) AS adt, CAST(TIMESTAMPDIFF(SECOND,
    TIMESTAMP '1970-01-01 00:00:00', A.expires) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM A.expires) AS exp_ms,
    A.seller, A.category, A.extra AS aextra
 FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10
