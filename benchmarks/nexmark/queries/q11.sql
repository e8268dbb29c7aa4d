-- User sessions
select bidder, count(*) as bid_count, session_window.start as starttime, session_window.end as endtime
from bid
group by bidder, session_window(dateTime, '10 seconds')
