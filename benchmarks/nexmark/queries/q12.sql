-- Bids of a user in each period: by event time, where the benchmark takes the time of processing
select bidder, count(*) as bid_count, window.start as starttime, window.end as endtime
from bid
group by bidder, window(dateTime, '10 seconds')
