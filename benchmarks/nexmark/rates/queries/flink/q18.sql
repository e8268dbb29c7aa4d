SELECT auction, bidder, price, channel, url, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    date_time) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM date_time) AS dt, extra FROM (
 SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS rn FROM bid) WHERE rn <= 1
