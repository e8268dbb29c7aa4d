SELECT auction, price, rn FROM (SELECT *,
    row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) WHERE rn <= 10
