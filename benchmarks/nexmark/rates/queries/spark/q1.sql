SELECT auction, bidder, 908 * price AS price, unix_millis(date_time) AS dt, extra FROM bid
