-- A view is a file with one SELECT in Spark SQL; the file's name is the view's name.
-- It is kept up to date change by change: `headrace explain revenue` shows how.
SELECT c.region, count(*) AS orders, sum(o.amount) AS revenue
FROM orders o
JOIN customers c ON c.id = o.customer_id
GROUP BY c.region
