-- Customers without an order: a row goes as soon as its first order comes, and comes back when that is deleted.
SELECT c.id, c.name, c.region
FROM customers c
LEFT ANTI JOIN orders o ON o.customer_id = c.id
