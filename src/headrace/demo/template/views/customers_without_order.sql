-- Anti join: a customer goes with the first order, and comes back when the only one is cancelled.
SELECT c.id, c.name, c.region
FROM customers c
WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
