-- Click-through rate per campaign and minute. A click counts in the minute in which its ad was shown, whenever it comes.
-- A view is a file with one SELECT in Spark SQL; the file's name is the view's name.
SELECT
  i.campaign,
  date_trunc('MINUTE', i.shown_at) AS minute,
  count(*) AS shown,
  count(c.impression_id) AS clicked,
  CAST(count(c.impression_id) / count(*) AS decimal(5, 4)) AS rate
FROM impressions i
LEFT JOIN clicks c ON c.impression_id = i.id
-- WHERE i.shown_at > now() - INTERVAL 1 DAY    -- keeps the last day only: rows go by themselves, from the sinks too
GROUP BY i.campaign, date_trunc('MINUTE', i.shown_at)
