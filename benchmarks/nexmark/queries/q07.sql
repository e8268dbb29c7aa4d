-- Highest bid of each period
select b.auction, b.price, b.bidder, b.dateTime, b.extra
from bid as b
join (
  select max(price) as maxprice, window.end as dateTime
  from bid
  group by window(dateTime, '10 seconds')
) as m on b.price = m.maxprice
where b.dateTime between m.dateTime - interval '10' second and m.dateTime
