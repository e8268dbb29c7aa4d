-- The campaigns as a whole: a view over the view ctr; both move in the same step.
SELECT campaign, sum(shown) AS shown, sum(clicked) AS clicked, CAST(sum(clicked) / sum(shown) AS decimal(5, 4)) AS rate
FROM ctr
GROUP BY campaign
