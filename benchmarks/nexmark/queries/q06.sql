-- Average selling price by seller, over the last ten auctions; the order is completed so that no two rows tie
select
  q.seller,
  q.id,
  avg(q.final) over (
    partition by q.seller order by q.dateTime, q.id rows between 10 preceding and current row
  ) as average
from (
  select
    a.id, a.seller, b.price as final, b.dateTime,
    row_number() over (partition by a.id, a.seller order by b.price desc, b.dateTime, b.bidder) as rank_number
  from auction as a, bid as b
  where a.id = b.auction and b.dateTime between a.dateTime and a.expires
) as q
where q.rank_number <= 1
