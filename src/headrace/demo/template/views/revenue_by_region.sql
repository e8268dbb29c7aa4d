-- Join and aggregate. A customer who moves takes his revenue along; what comes back is no revenue.
SELECT c.region, count(*) AS lines, sum(l.quantity) AS units, sum(l.quantity * l.unit_price) AS revenue
FROM orders o
JOIN order_lines l ON l.order_id = o.id
JOIN customers c ON c.id = o.customer_id
WHERE o.status <> 'returned'
GROUP BY c.region
