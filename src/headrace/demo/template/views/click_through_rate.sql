-- Windowed aggregate over a join: of the impressions of a minute and campaign, how many were clicked in the end.
SELECT window.start AS minute, m.name AS campaign, count(*) AS impressions, count(k.id) AS clicks,
       CAST(100.0 * count(k.id) / count(*) AS decimal(5,2)) AS percent
FROM impressions i
JOIN campaigns m ON m.id = i.campaign_id
LEFT JOIN clicks k ON k.impression_id = i.id
GROUP BY window(i.shown_at, '1 minute'), m.name
