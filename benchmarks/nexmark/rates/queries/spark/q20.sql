SELECT b.auction, b.bidder, b.price, b.channel, b.url, unix_millis(b.date_time) AS bdt, b.extra AS bextra,
    a.item_name, a.description,
  a.initial_bid, a.reserve, unix_millis(a.date_time) AS adt, unix_millis(a.expires) AS exp_ms, a.seller, a.category,
    a.extra AS aextra
 FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10
