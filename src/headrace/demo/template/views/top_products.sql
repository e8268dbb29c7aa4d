-- Ranking: the five products of each category with the highest revenue.
WITH product_sales AS (
  SELECT p.category, p.id AS product_id, p.name AS product, sum(l.quantity) AS units,
         sum(l.quantity * l.unit_price) AS revenue
  FROM order_lines l
  JOIN products p ON p.id = l.product_id
  GROUP BY p.category, p.id, p.name
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY category ORDER BY revenue DESC, product_id) AS place
  FROM product_sales
)
SELECT category, place, product_id, product, units, revenue
FROM ranked
WHERE place <= 5
