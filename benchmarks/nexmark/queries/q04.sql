-- Average price for a category
select q.category, avg(q.final) as average
from (
  select max(b.price) as final, a.category
  from auction as a, bid as b
  where a.id = b.auction and b.dateTime between a.dateTime and a.expires
  group by a.id, a.category
) as q
group by q.category
