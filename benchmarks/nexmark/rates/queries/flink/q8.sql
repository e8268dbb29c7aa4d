SELECT P.id, P.name, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',
    P.starttime) AS BIGINT) * 1000 AS stime FROM (
 SELECT id, name, window_start AS starttime, window_end AS endtime FROM TABLE(TUMBLE(TABLE person,
    DESCRIPTOR(date_time), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end) P
 JOIN (SELECT seller, window_start AS starttime, window_end AS endtime FROM TABLE(TUMBLE(TABLE auction,
    DESCRIPTOR(date_time), INTERVAL '10' SECOND)) GROUP BY seller, window_start, window_end) A
 ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime
