-- Calculation: letters counted by built-in functions, where the benchmark has a function of the user's
select
  auction,
  bidder,
  0.908 * price as price,
  case
    when hour(dateTime) >= 8 and hour(dateTime) <= 18 then 'dayTime'
    when hour(dateTime) <= 6 or hour(dateTime) >= 20 then 'nightTime'
    else 'otherTime'
  end as bidTimeType,
  dateTime,
  extra,
  length(extra) - length(replace(extra, 'c', '')) as c_counts
from bid
where 0.908 * price > 1000000 and 0.908 * price < 50000000
