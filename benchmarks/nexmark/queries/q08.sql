-- New users that open an auction in the period in which they came
select p.id, p.name, p.starttime
from (
  select id, name, window.start as starttime, window.end as endtime
  from person
  group by id, name, window(dateTime, '10 seconds')
) as p
join (
  select seller, window.start as starttime, window.end as endtime
  from auction
  group by seller, window(dateTime, '10 seconds')
) as a on p.id = a.seller and p.starttime = a.starttime and p.endtime = a.endtime
