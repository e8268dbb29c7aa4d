SELECT auction, bidder, 908 * price AS price, epoch_ms(date_time) AS dt, extra FROM bid
