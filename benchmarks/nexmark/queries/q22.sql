-- The folders of each address
select
  auction, bidder, price, channel,
  get(split(url, '/'), 3) as dir1,
  get(split(url, '/'), 4) as dir2,
  get(split(url, '/'), 5) as dir3
from bid
