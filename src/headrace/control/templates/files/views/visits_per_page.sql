-- A view is a file with one SELECT in Spark SQL; the file's name is the view's name.
-- It is kept up to date as files come: `headrace explain visits_per_page` shows how.
SELECT page, count(*) AS visits, sum(seconds) AS seconds
FROM visits
GROUP BY page
