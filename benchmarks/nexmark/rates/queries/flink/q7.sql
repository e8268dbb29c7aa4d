SELECT B.auction, B.price, B.bidder, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    B.date_time) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM B.date_time) AS dt, B.extra FROM bid B JOIN (
 SELECT MAX(price) AS maxprice, window_end AS wend FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time),
    INTERVAL '10' SECOND)) GROUP BY window_start, window_end) B1
 ON B.price = B1.maxprice WHERE B.date_time BETWEEN B1.wend - INTERVAL '10' SECOND AND B1.wend
