-- The last bid of each user on each auction; the order is completed so that no two bids tie
select auction, bidder, price, channel, url, dateTime, extra
from (
  select
    *,
    row_number() over (partition by bidder, auction order by dateTime desc, price, channel, url, extra) as rank_number
  from bid
)
where rank_number <= 1
