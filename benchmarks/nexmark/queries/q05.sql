-- Hot items: the auctions with most bids in each hopping window
with counted as (
  select auction, window.start as starttime, window.end as endtime, count(*) as num
  from bid
  group by auction, window(dateTime, '10 seconds', '2 seconds')
)
select c.auction, c.num, c.starttime, c.endtime
from counted as c
join (
  select max(num) as maxn, starttime, endtime from counted group by starttime, endtime
) as m on c.starttime = m.starttime and c.endtime = m.endtime and c.num >= m.maxn
