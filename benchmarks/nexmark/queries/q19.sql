-- The ten highest bids of each auction; the order is completed so that no two bids tie
select *
from (
  select
    *,
    row_number() over (
      partition by auction order by price desc, dateTime, bidder, channel, url, extra
    ) as rank_number
  from bid
)
where rank_number <= 10
