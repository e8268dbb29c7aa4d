SELECT auction, bidder, price, unix_millis(date_time) AS dt, extra FROM bid
