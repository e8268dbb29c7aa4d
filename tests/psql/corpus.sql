-- Statements that PostgreSQL and Headrace answer alike: rows, types and names of columns. One a paragraph.

SELECT * FROM kinds ORDER BY id

SELECT id, flag, small, whole, large FROM kinds WHERE whole > 0 ORDER BY id

SELECT single, twofold FROM kinds ORDER BY id

SELECT amount, amount * 2 AS doubled FROM kinds WHERE amount IS NOT NULL ORDER BY id

SELECT label, upper(label) AS loud, length(label)::int FROM kinds WHERE id <> 4 ORDER BY id

SELECT day, moment, clock FROM kinds ORDER BY id

SELECT bytes FROM kinds ORDER BY id

SELECT words, numbers FROM kinds ORDER BY id

SELECT count(*), count(label), min(whole), max(label) FROM kinds

SELECT flag, count(*) FROM kinds GROUP BY flag ORDER BY flag

SELECT whole / 2, whole % 3 AS rest FROM kinds ORDER BY id

SELECT id FROM kinds ORDER BY amount DESC, id

SELECT id FROM kinds ORDER BY amount, id

SELECT sum(large), sum(twofold) FROM kinds WHERE id < 3

SELECT a.id, b.id AS other FROM kinds a JOIN kinds b ON b.id = a.id + 1 ORDER BY 1

SELECT id FROM public.kinds WHERE label ILIKE 'B%' OR label IS NULL ORDER BY id

SELECT id, CASE WHEN flag THEN 'yes' WHEN NOT flag THEN 'no' END FROM kinds ORDER BY id

SELECT coalesce(label, 'none'), nullif(label, 'plain') FROM kinds ORDER BY id

SELECT id FROM kinds WHERE id IN (SELECT max(id) FROM kinds)

WITH bounds AS (SELECT min(id) AS low, max(id) AS high FROM kinds) SELECT low, high FROM bounds

SELECT 1, 'text', 1.5, NULL, true

SELECT 1::int, 2::bigint, 'x'::text, 1.5::numeric(5,2), '2024-02-29'::date, true::boolean

SELECT id FROM kinds UNION ALL SELECT 100 ORDER BY 1

SELECT DISTINCT flag FROM kinds ORDER BY flag

SELECT id, row_number() OVER (ORDER BY id DESC) FROM kinds ORDER BY id LIMIT 2 OFFSET 1

SELECT exists(SELECT 1 FROM kinds), (SELECT max(id) FROM kinds)

SELECT current_user::text, current_schema()::text, current_database()::text

SELECT string_agg(label, ',' ORDER BY id) FROM kinds

SELECT date_trunc('month', moment), extract(year FROM moment)::int FROM kinds WHERE id = 1

SELECT id, label || '!' AS shouted FROM kinds WHERE label LIKE '%a%' ORDER BY id

VALUES (1, 'a'), (2, 'b')

SELECT k.* , 7 AS seven FROM kinds k WHERE k.id = 1

SELECT lower('ABC'), abs(-3), round(2.567, 2), greatest(1, 2), substring('headrace', 1, 4)

SELECT avg(twofold) FROM kinds WHERE id = 1

SELECT bool_and(flag), bool_or(flag) FROM kinds

SELECT id FROM kinds WHERE moment > '2024-01-01' AND day < '2030-01-01' ORDER BY id

SELECT interval '1 month 2 days 03:04:05'

SELECT 'it''s', E'a\nb', $$dollar$$, "id" FROM kinds WHERE id = 1

SELECT array[1, 2, 3], array['a', NULL, 'c d']

SHOW server_encoding

SHOW transaction_isolation

SELECT ID, Label AS Shown, "label" AS "Kept" FROM Kinds WHERE Id = 1

SELECT id, '\x00FF'::bytea AS written FROM kinds WHERE bytes = '\x00ff5c'::bytea

SELECT id FROM kinds WHERE id = ANY (('{"1","3"}')) AND label <> ALL (('{plain, "x y"}')) ORDER BY id
