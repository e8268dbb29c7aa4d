SELECT b.auction, b.bidder, b.price, b.channel, b.url, epoch_ms(b.date_time) AS bdt, b.extra AS bextra, a.item_name,
    a.description,
  a.initial_bid, a.reserve, epoch_ms(a.date_time) AS adt, epoch_ms(a.expires) AS exp_ms, a.seller, a.category,
    a.extra AS aextra
 FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10
