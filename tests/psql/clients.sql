-- What clients ask of the catalogue by themselves. One a paragraph, after the client and what it asks for.

-- pgjdbc: tables
SELECT current_database() AS "TABLE_CAT", n.nspname AS "TABLE_SCHEM", c.relname AS "TABLE_NAME", CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN CASE WHEN n.nspname = 'pg_catalog' OR n.nspname = 'information_schema' THEN CASE c.relkind WHEN 'r' THEN 'SYSTEM TABLE' WHEN 'v' THEN 'SYSTEM VIEW' ELSE NULL END ELSE NULL END WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'i' THEN 'INDEX' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END ELSE NULL END AS "TABLE_TYPE", d.description AS "REMARKS" FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass) WHERE c.relnamespace = n.oid AND n.nspname LIKE 'public' AND (false OR (c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema') OR (c.relkind = 'v' AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema')) ORDER BY "TABLE_TYPE", "TABLE_SCHEM", "TABLE_NAME"

-- pgjdbc: columns
SELECT * FROM (SELECT current_database() AS current_database, n.nspname, c.relname, a.attname, a.atttypid, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull, a.atttypmod, a.attlen, t.typtypmod, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, nullif(a.attidentity, '') as attidentity, nullif(a.attgenerated, '') as attgenerated, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc, dsc.description, t.typbasetype, t.typtype FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid = def.adrelid AND a.attnum = def.adnum) LEFT JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid) LEFT JOIN pg_catalog.pg_class dc ON (dc.oid = dsc.classoid AND dc.relname = 'pg_class') LEFT JOIN pg_catalog.pg_namespace dn ON (dc.relnamespace = dn.oid AND dn.nspname = 'pg_catalog') WHERE c.relkind in ('r','p','v','f','m') and a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE 'public' AND c.relname LIKE 'kinds') c WHERE true ORDER BY nspname, c.relname, attnum

-- pgjdbc: primary keys
SELECT result.TABLE_CAT, result.TABLE_SCHEM, result.TABLE_NAME, result.COLUMN_NAME, result.KEY_SEQ, result.PK_NAME FROM (SELECT current_database() AS TABLE_CAT, n.nspname AS TABLE_SCHEM, ct.relname AS TABLE_NAME, a.attname AS COLUMN_NAME, (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME, information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM, i.indnkeyatts as KEY_COUNT FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid) JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid) JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) WHERE true AND n.nspname = 'public' AND ct.relname = 'keyed' AND i.indisprimary) result where result.A_ATTNUM = (result.KEYS).x AND result.KEY_SEQ <= KEY_COUNT ORDER BY result.table_name, result.pk_name, result.key_seq

-- pgjdbc: schemas
SELECT nspname AS "TABLE_SCHEM", current_database() AS "TABLE_CATALOG" FROM pg_catalog.pg_namespace WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1]) AND (nspname !~ '^pg_toast_temp_' OR nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_')) AND nspname <> 'pg_catalog' ORDER BY "TABLE_SCHEM"

-- pgjdbc: a type by its number
SELECT n.nspname = ANY(current_schemas(true)), n.nspname, t.typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 1700

-- pgjdbc: the array of a type
SELECT e.typdelim FROM pg_catalog.pg_type t, pg_catalog.pg_type e WHERE t.oid = 1009 and t.typelem = e.oid

-- psycopg: a type by its name
SELECT typname AS name, oid, typarray AS array_oid, typdelim AS delimiter FROM pg_type t WHERE t.oid = to_regtype('numeric') ORDER BY t.oid

-- SQLAlchemy: at the start
select pg_catalog.version() IS NOT NULL AS version

-- SQLAlchemy: the schema
select current_schema()::text

-- SQLAlchemy: names of views
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['v']) AND pg_catalog.pg_class.relpersistence != 't' AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog' AND pg_catalog.pg_namespace.nspname != 'information_schema' ORDER BY 1

-- SQLAlchemy: columns
SELECT pg_catalog.pg_attribute.attname AS name, pg_catalog.format_type(pg_catalog.pg_attribute.atttypid, pg_catalog.pg_attribute.atttypmod) AS format_type, (SELECT pg_catalog.pg_get_expr(pg_catalog.pg_attrdef.adbin, pg_catalog.pg_attrdef.adrelid) AS pg_get_expr_1 FROM pg_catalog.pg_attrdef WHERE pg_catalog.pg_attrdef.adrelid = pg_catalog.pg_attribute.attrelid AND pg_catalog.pg_attrdef.adnum = pg_catalog.pg_attribute.attnum AND pg_catalog.pg_attribute.atthasdef) AS "default", pg_catalog.pg_attribute.attnotnull AS not_null, pg_catalog.pg_class.relname AS table_name, pg_catalog.pg_description.description AS comment, pg_catalog.pg_attribute.attgenerated::text AS generated, (SELECT json_build_object('always', pg_catalog.pg_attribute.attidentity = 'a', 'start', pg_catalog.pg_sequence.seqstart, 'increment', pg_catalog.pg_sequence.seqincrement)::text AS json_build_object_1 FROM pg_catalog.pg_sequence WHERE pg_catalog.pg_attribute.attidentity != '' AND pg_catalog.pg_sequence.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(CAST(CAST(pg_catalog.pg_attribute.attrelid AS REGCLASS) AS TEXT), pg_catalog.pg_attribute.attname) AS REGCLASS) AS OID)) AS identity_options FROM pg_catalog.pg_class LEFT OUTER JOIN pg_catalog.pg_attribute ON pg_catalog.pg_class.oid = pg_catalog.pg_attribute.attrelid AND pg_catalog.pg_attribute.attnum > 0 AND NOT pg_catalog.pg_attribute.attisdropped LEFT OUTER JOIN pg_catalog.pg_description ON pg_catalog.pg_description.objoid = pg_catalog.pg_attribute.attrelid AND pg_catalog.pg_description.objsubid = pg_catalog.pg_attribute.attnum JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog' AND pg_catalog.pg_class.relname IN ('kinds') ORDER BY pg_catalog.pg_class.relname, pg_catalog.pg_attribute.attnum

-- SQLAlchemy: primary keys
SELECT array_agg(CAST(attr.attname AS TEXT) ORDER BY attr.ord) AS cols, attr.conname FROM (SELECT con.conrelid AS conrelid, con.conname AS conname, con.ord AS ord, pg_catalog.pg_attribute.attname AS attname FROM pg_catalog.pg_attribute JOIN (SELECT pg_catalog.pg_constraint.conrelid AS conrelid, pg_catalog.pg_constraint.conname AS conname, unnest(pg_catalog.pg_constraint.conkey) AS attnum, generate_subscripts(pg_catalog.pg_constraint.conkey, 1) AS ord FROM pg_catalog.pg_constraint JOIN pg_catalog.pg_class ON pg_catalog.pg_class.oid = pg_catalog.pg_constraint.conrelid WHERE pg_catalog.pg_constraint.contype = 'p' AND pg_catalog.pg_class.relname = 'keyed') AS con ON pg_catalog.pg_attribute.attnum = con.attnum AND pg_catalog.pg_attribute.attrelid = con.conrelid) AS attr GROUP BY attr.conrelid, attr.conname ORDER BY attr.conrelid, attr.conname

-- Metabase: what may be read
select NULL as role, t.schemaname::text as schema, t.objectname::text as table, pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'select') as select from (select schemaname, tablename as objectname from pg_catalog.pg_tables union select schemaname, viewname as objectname from pg_catalog.pg_views union select schemaname, matviewname as objectname from pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage') order by 3

-- Metabase: fields
SELECT c.column_name::text AS name, c.udt_name::text AS "database-type", c.ordinal_position::int - 1 AS "database-position", c.table_schema::text AS "table-schema", c.table_name::text AS "table-name", pk.column_name IS NOT NULL AS "pk?", col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid), c.ordinal_position::int) AS "field-comment" FROM information_schema.columns AS c LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc INNER JOIN information_schema.key_column_usage AS kc ON tc.constraint_name = kc.constraint_name AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name WHERE tc.constraint_type = 'PRIMARY KEY') AS pk ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema IN ('public') ORDER BY 4, 5, 3

-- DBeaver: databases
SELECT db.datname, db.encoding, db.datallowconn, db.datconnlimit FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate AND db.datname = 'shop' ORDER BY db.datname

-- DBeaver: schemas
SELECT n.oid, n.nspname, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass WHERE n.nspname IN ('public') AND d.description IS NULL ORDER BY nspname

-- DBeaver: relations
SELECT c.relname, c.relkind, c.relnatts, c.relhasrules AND false AS rules, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') AND c.relkind not in ('i','I','c') ORDER BY 1

-- DBeaver: attributes
SELECT c.relname, a.attname, a.attnum, a.atttypmod, a.attlen, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value, dsc.description, dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.oid = 'kinds'::regclass AND a.attnum > 0 ORDER BY a.attnum

-- DBeaver: words of the language
select count(*) > 10 AS many from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,"quoted word"}'::text[])

-- DBeaver: a setting
select setting from pg_catalog.pg_settings where name = 'standard_conforming_strings'

-- Grafana: columns
SELECT quote_ident(column_name) AS name, data_type::text FROM information_schema.columns WHERE CASE WHEN table_name = 'kinds' THEN true ELSE false END ORDER BY ordinal_position

-- Npgsql: types with their elements
SELECT n.nspname, t.oid, t.typname, t.kind, t.element FROM (SELECT t.oid, t.typnamespace, t.typname, CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS kind, CASE WHEN p.proname = 'array_recv' THEN t.typelem WHEN t.typtype = 'r' THEN r.rngsubtype WHEN t.typtype = 'm' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = t.oid) WHEN t.typtype = 'd' THEN t.typbasetype END AS element FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid LEFT JOIN pg_proc AS p ON p.oid = t.typreceive LEFT JOIN pg_range AS r ON r.rngtypid = t.oid) AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE t.kind IN ('a', 'b') AND t.typname IN ('int4', '_int4', 'text', '_text', 'numeric', '_numeric', 'timestamptz') ORDER BY t.kind = 'a', t.oid

-- Npgsql: composite types, of which there are none
SELECT count(*) FROM pg_type AS t JOIN pg_class AS c ON c.oid = t.typrelid JOIN pg_attribute AS a ON a.attrelid = t.typrelid WHERE t.typtype = 'c' AND c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped

-- pgjdbc: whether a type is an array
SELECT t.typinput = 'pg_catalog.array_in'::regproc AS is_array, t.typtype, t.typname, t.oid FROM pg_catalog.pg_type t LEFT JOIN (SELECT n.oid, n.nspname, p.place FROM pg_namespace n JOIN (SELECT g.place, (current_schemas(false))[g.place] AS nspname FROM generate_series(1, array_upper(current_schemas(false), 1)) AS g(place)) AS p USING (nspname)) AS s ON s.oid = t.typnamespace WHERE t.oid = '1007' ORDER BY s.place, t.oid DESC

-- Metabase: descriptions and estimates
SELECT "n"."nspname" AS "schema", "c"."relname" AS "name", "d"."description" AS "description", "s"."n_live_tup" AS "estimate" FROM "pg_catalog"."pg_class" AS "c" INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "c"."relnamespace" = "n"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "d" ON ("c"."oid" = "d"."objoid") AND ("d"."objsubid" = 0) AND ("d"."classoid" = 'pg_class'::regclass) LEFT JOIN "pg_stat_user_tables" AS "s" ON ("n"."nspname" = "s"."schemaname") AND ("c"."relname" = "s"."relname") WHERE c.relkind IN ('v', 'm', 'f') AND "n"."nspname" IN ('public') ORDER BY 1, 2

-- Grafana: relations on the search path
SELECT CASE WHEN quote_ident(t.table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array('public', ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, string_to_array('public', ',') s) THEN quote_ident(t.table_name) ELSE quote_ident(t.table_schema) || '.' || quote_ident(t.table_name) END AS "table" FROM information_schema.tables t WHERE quote_ident(t.table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1

-- Grafana: columns of a name that may have its schema
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('public.kinds'), 1) = 2 THEN quote_ident(table_schema) = (parse_ident('public.kinds'))[1] AND quote_ident(table_name) = (parse_ident('public.kinds'))[2] ELSE false END ORDER BY ordinal_position

-- DBeaver: indexes
SELECT c.relname, i.indkey::text IS NOT NULL AS keys, i.indisunique, i.indisprimary, i.indnatts, x.amname, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS condition FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN pg_catalog.pg_class t ON t.oid = i.indrelid LEFT OUTER JOIN pg_catalog.pg_am x ON x.oid = c.relam WHERE t.relname = 'keyed' ORDER BY c.relname

-- DBeaver: constraints
SELECT c.conname, c.contype, c.conrelid::regclass, c.conkey, pg_catalog.pg_get_constraintdef(c.oid, true) AS definition, d.description FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON c.conrelid = t.oid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass WHERE c.conrelid = 'keyed'::regclass AND c.contype = 'p' ORDER BY c.oid

-- DataGrip: the database
SELECT n.datname AS name, s.description, n.datistemplate, n.datallowconn, (pg_catalog.txid_current() % 4294967296)::varchar::bigint > 0 AS moves, round(extract(epoch FROM pg_postmaster_start_time() AT TIME ZONE 'UTC')) > 0 AS begun FROM pg_catalog.pg_database n LEFT JOIN pg_catalog.pg_shdescription s ON n.oid = s.objoid WHERE n.datname = 'shop' ORDER BY CASE WHEN n.datname = pg_catalog.current_database() THEN -1::bigint ELSE n.oid::bigint END

-- DataGrip: what changed
SELECT c.relname, c.relkind, c.xmin IS NOT NULL AS numbered, c.reloptions, c.relispartition FROM pg_catalog.pg_class c WHERE c.relnamespace = 'public'::regnamespace::oid AND c.relkind IN ('r', 'm', 'v', 'p') ORDER BY c.relname

-- Tableau and Power BI: keys of a relation
SELECT k.column_name, k.ordinal_position, t.constraint_type FROM information_schema.table_constraints t JOIN information_schema.key_column_usage k USING (constraint_schema, constraint_name) LEFT JOIN information_schema.referential_constraints r USING (constraint_schema, constraint_name) JOIN information_schema.constraint_column_usage u USING (constraint_schema, constraint_name, column_name) WHERE t.table_name = 'keyed' AND t.constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') AND r.unique_constraint_name IS NULL ORDER BY 2

-- many: columns with whether they are of the key
SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(i.indisprimary, false) AS key FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND a.attnum = ANY (i.indkey) AND i.indisprimary WHERE a.attrelid = 'public.keyed'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- many: indexes as text
SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2

-- many: names of objects
SELECT c.oid::regclass, c.oid::regclass::text AS spelled, 'public.keyed'::regclass::text AS given, a.atttypid::regtype, c.relnamespace::regnamespace FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 1 WHERE c.oid = 'keyed'::regclass

-- ADBC: types
SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type WHERE (typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv' AND oid IN (16, 17, 20, 21, 23, 25, 700, 701, 1082, 1114, 1184, 1700) ORDER BY oid

-- ADBC: tables
SELECT c.relname, CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' END AS reltype FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = ANY('{p, f, t, m, v, r}') ORDER BY 1

-- TypeORM: the schema
SELECT * FROM current_schema()

-- TypeORM: the database
SELECT * FROM current_database()

-- TypeORM: comments
SELECT "table_schema", "table_name", obj_description((quote_ident("table_schema") || '.' || quote_ident("table_name"))::regclass, 'pg_class') AS table_comment FROM "information_schema"."tables" WHERE ("table_schema" = 'public' AND "table_name" = 'kinds') OR ("table_schema" = 'public' AND "table_name" = 'keyed') ORDER BY 2

-- TypeORM: columns
SELECT columns.column_name, columns.data_type, columns.numeric_precision, pg_catalog.col_description((quote_ident(table_catalog) || '.' || quote_ident(table_schema) || '.' || quote_ident(table_name))::regclass::oid, ordinal_position) AS description, ('"' || "udt_schema" || '"."' || "udt_name" || '"')::"regtype"::text AS "regtype", pg_catalog.format_type("col_attr"."atttypid", "col_attr"."atttypmod") AS "format_type" FROM "information_schema"."columns" LEFT JOIN "pg_catalog"."pg_attribute" AS "col_attr" ON "col_attr"."attname" = "columns"."column_name" AND "col_attr"."attrelid" = ( SELECT "cls"."oid" FROM "pg_catalog"."pg_class" AS "cls" LEFT JOIN "pg_catalog"."pg_namespace" AS "ns" ON "ns"."oid" = "cls"."relnamespace" WHERE "cls"."relname" = "columns"."table_name" AND "ns"."nspname" = "columns"."table_schema" ) WHERE ("table_schema" = 'public' AND "table_name" = 'kinds') OR ("table_schema" = 'public' AND "table_name" = 'keyed') ORDER BY table_name, columns.ordinal_position

-- Knex: columns
select * from information_schema.columns where table_name = 'pair' and table_catalog = current_database() and table_schema = current_schema()

-- Sequelize: types
WITH ranges AS (SELECT pg_range.rngtypid, pg_type.typname AS rngtypname, pg_type.typarray AS rngtyparray, pg_range.rngsubtype FROM pg_range LEFT OUTER JOIN pg_type ON pg_type.oid = pg_range.rngtypid) SELECT pg_type.typname, pg_type.typtype, pg_type.oid, pg_type.typarray FROM pg_type LEFT OUTER JOIN ranges ON pg_type.oid = ranges.rngsubtype WHERE (pg_type.typtype IN('b', 'e')) AND pg_type.typname IN ('date', 'int4', '_text') ORDER BY 1

-- pgcli: functions
SELECT count(*) FROM (SELECT n.nspname schema_name, p.proname func_name, p.proargnames, COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[], p.proargmodes, prorettype::regtype::text return_type, p.prokind = 'a' is_aggregate, p.prokind = 'w' is_window, p.proretset is_set_returning, d.deptype = 'e' is_extension, pg_get_expr(proargdefaults, 0) AS arg_defaults FROM pg_catalog.pg_proc p INNER JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace LEFT JOIN pg_depend d ON d.objid = p.oid and d.deptype = 'e' WHERE p.prorettype::regtype != 'trigger'::regtype AND n.nspname = 'public' ORDER BY 1, 2) f

-- Drizzle: columns
SELECT a.attrelid::regclass::text AS table_name, a.attname AS column_name, CASE WHEN NOT a.attisdropped THEN CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END ELSE NULL END AS is_nullable, a.attndims AS array_dimensions, CASE WHEN a.atttypid = ANY ('{int,int8,int2}'::regtype[]) AND EXISTS (SELECT FROM pg_attrdef ad WHERE ad.adrelid = a.attrelid AND ad.adnum = a.attnum AND pg_get_expr(ad.adbin, ad.adrelid) = 'nextval(''' || pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass || '''::regclass)') THEN CASE a.atttypid WHEN 'int'::regtype THEN 'serial' WHEN 'int8'::regtype THEN 'bigserial' WHEN 'int2'::regtype THEN 'smallserial' END ELSE format_type(a.atttypid, a.atttypmod) END AS data_type, pg_get_serial_sequence('"public"."keyed"', a.attname)::regclass AS seq_name, c.data_type AS additional_dt FROM pg_attribute a JOIN information_schema.columns c ON c.column_name = a.attname JOIN pg_type t ON t.oid = a.atttypid WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = '"public"."keyed"'::regclass AND c.table_name = 'keyed' ORDER BY a.attnum
