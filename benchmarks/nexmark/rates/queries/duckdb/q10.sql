SELECT auction, bidder, price, epoch_ms(date_time) AS dt, extra, strftime(date_time, '%Y-%m-%d') AS day,
    strftime(date_time, '%H:%M') AS minute FROM bid
