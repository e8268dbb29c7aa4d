SELECT auction, bidder, price, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    date_time) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM date_time) AS dt, extra,
    DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day`, DATE_FORMAT(date_time, 'HH:mm') AS `minute` FROM bid
