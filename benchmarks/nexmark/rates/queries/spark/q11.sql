SELECT bidder, count(*) AS bid_count, unix_millis(session_window.start) AS starttime,
 unix_millis(session_window.end) AS endtime FROM bid GROUP BY bidder, session_window(date_time, '10 seconds')
