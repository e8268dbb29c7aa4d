-- Winning bids; the order is completed so that no two bids tie
select
  id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
  auction, bidder, price, bid_dateTime, bid_extra
from (
  select
    a.*, b.auction, b.bidder, b.price, b.dateTime as bid_dateTime, b.extra as bid_extra,
    row_number() over (partition by a.id order by b.price desc, b.dateTime, b.bidder, b.extra) as rank_number
  from auction as a, bid as b
  where a.id = b.auction and b.dateTime between a.dateTime and a.expires
)
where rank_number <= 1
