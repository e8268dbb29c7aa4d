SELECT auction, bidder, price, unix_millis(date_time) AS dt, extra, date_format(date_time, 'yyyy-MM-dd') AS day,
    date_format(date_time, 'HH:mm') AS minute FROM bid
