-- Log to files: the rows with what partitions them
select
  auction, bidder, price, dateTime, extra,
  date_format(dateTime, 'yyyy-MM-dd') as day,
  date_format(dateTime, 'HH:mm') as minute
from bid
