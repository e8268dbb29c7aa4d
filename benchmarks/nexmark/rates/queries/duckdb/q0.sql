SELECT auction, bidder, price, epoch_ms(date_time) AS dt, extra FROM bid
