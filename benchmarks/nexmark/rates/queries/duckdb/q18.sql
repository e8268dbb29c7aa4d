SELECT auction, bidder, price, channel, url, epoch_ms(date_time) AS dt, extra FROM (
 SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS rn FROM bid) WHERE rn <= 1
