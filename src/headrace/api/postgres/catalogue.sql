-- What clients ask of PostgreSQL's catalogue and is the same for every project: names that DuckDB lacks or has otherwise.
CREATE TYPE name AS VARCHAR;
CREATE TYPE regclass AS BIGINT;
CREATE TYPE regtype AS BIGINT;
CREATE TYPE regproc AS BIGINT;
CREATE TYPE regnamespace AS BIGINT;
CREATE TYPE xid AS BIGINT;
CREATE TYPE jsonb AS VARCHAR;

CREATE TABLE pg_namespace (oid BIGINT, nspname VARCHAR, nspowner BIGINT, nspacl VARCHAR[]);
INSERT INTO pg_namespace VALUES (11, 'pg_catalog', 10, NULL), (2200, 'public', 10, NULL), (13000, 'information_schema', 10, NULL);
CREATE TABLE pg_am (oid BIGINT, amname VARCHAR, amhandler BIGINT, amtype VARCHAR);
INSERT INTO pg_am VALUES (2, 'heap', 0, 't'), (403, 'btree', 0, 'i');
CREATE TABLE pg_collation (oid BIGINT, collname VARCHAR, collnamespace BIGINT, collowner BIGINT, collprovider VARCHAR,
  collisdeterministic BOOLEAN, collencoding INTEGER, collcollate VARCHAR, collctype VARCHAR);
INSERT INTO pg_collation VALUES (100, 'default', 11, 10, 'd', true, -1, NULL, NULL), (950, 'C', 11, 10, 'c', true, -1, 'C', 'C');
CREATE TABLE pg_tablespace (oid BIGINT, spcname VARCHAR, spcowner BIGINT, spcacl VARCHAR[], spcoptions VARCHAR[]);
INSERT INTO pg_tablespace VALUES (1663, 'pg_default', 10, NULL, NULL);
CREATE TABLE pg_language (oid BIGINT, lanname VARCHAR, lanowner BIGINT, lanispl BOOLEAN, lanpltrusted BOOLEAN);

-- Kinds of objects of which a project has none.
CREATE TABLE pg_attrdef (oid BIGINT, adrelid BIGINT, adnum SMALLINT, adbin VARCHAR);
CREATE TABLE pg_policy (oid BIGINT, polname VARCHAR, polrelid BIGINT, polcmd VARCHAR, polpermissive BOOLEAN,
  polroles BIGINT[], polqual VARCHAR, polwithcheck VARCHAR);
CREATE TABLE pg_statistic_ext (oid BIGINT, stxrelid BIGINT, stxname VARCHAR, stxnamespace BIGINT, stxowner BIGINT,
  stxkeys SMALLINT[], stxkind VARCHAR[], stxstattarget INTEGER);
CREATE TABLE pg_publication (oid BIGINT, pubname VARCHAR, pubowner BIGINT, puballtables BOOLEAN, pubinsert BOOLEAN,
  pubupdate BOOLEAN, pubdelete BOOLEAN, pubtruncate BOOLEAN, pubviaroot BOOLEAN);
CREATE TABLE pg_publication_rel (oid BIGINT, prpubid BIGINT, prrelid BIGINT, prqual VARCHAR, prattrs SMALLINT[]);
CREATE TABLE pg_publication_namespace (oid BIGINT, pnpubid BIGINT, pnnspid BIGINT);
CREATE TABLE pg_inherits (inhrelid BIGINT, inhparent BIGINT, inhseqno INTEGER, inhdetachpending BOOLEAN);
CREATE TABLE pg_rewrite (oid BIGINT, rulename VARCHAR, ev_class BIGINT, ev_type VARCHAR, ev_enabled VARCHAR);
CREATE TABLE pg_trigger (oid BIGINT, tgrelid BIGINT, tgname VARCHAR, tgfoid BIGINT, tgtype SMALLINT, tgenabled VARCHAR,
  tgisinternal BOOLEAN, tgconstraint BIGINT, tgparentid BIGINT);
CREATE TABLE pg_extension (oid BIGINT, extname VARCHAR, extowner BIGINT, extnamespace BIGINT, extversion VARCHAR);
CREATE TABLE pg_proc (oid BIGINT, proname VARCHAR, pronamespace BIGINT, proowner BIGINT, prolang BIGINT, prokind VARCHAR,
  proretset BOOLEAN, provolatile VARCHAR, pronargs SMALLINT, prorettype BIGINT, proargtypes BIGINT[], proargnames VARCHAR[],
  proargmodes VARCHAR[], proallargtypes BIGINT[], prosrc VARCHAR, proisagg BOOLEAN);
CREATE TABLE pg_sequence (seqrelid BIGINT, seqtypid BIGINT, seqstart BIGINT, seqincrement BIGINT, seqmax BIGINT, seqmin BIGINT);
CREATE TABLE pg_enum (oid BIGINT, enumtypid BIGINT, enumsortorder FLOAT, enumlabel VARCHAR);
CREATE TABLE pg_range (rngtypid BIGINT, rngsubtype BIGINT, rngmultitypid BIGINT, rngcollation BIGINT, rngsubopc BIGINT);
CREATE TABLE pg_auth_members (roleid BIGINT, member BIGINT, grantor BIGINT, admin_option BOOLEAN);
CREATE TABLE pg_depend (classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, refobjid BIGINT,
  refobjsubid INTEGER, deptype VARCHAR);
CREATE TABLE pg_foreign_table (ftrelid BIGINT, ftserver BIGINT, ftoptions VARCHAR[]);
CREATE TABLE pg_foreign_server (oid BIGINT, srvname VARCHAR, srvowner BIGINT, srvfdw BIGINT, srvoptions VARCHAR[]);
CREATE TABLE pg_foreign_data_wrapper (oid BIGINT, fdwname VARCHAR, fdwowner BIGINT, fdwhandler BIGINT, fdwoptions VARCHAR[]);
CREATE TABLE pg_event_trigger (oid BIGINT, evtname VARCHAR, evtevent VARCHAR, evtowner BIGINT, evtenabled VARCHAR);
CREATE TABLE pg_operator (oid BIGINT, oprname VARCHAR, oprnamespace BIGINT, oprleft BIGINT, oprright BIGINT);
CREATE TABLE pg_opclass (oid BIGINT, opcname VARCHAR, opcnamespace BIGINT, opcdefault BOOLEAN, opcintype BIGINT);
CREATE TABLE pg_cast (oid BIGINT, castsource BIGINT, casttarget BIGINT, castfunc BIGINT, castcontext VARCHAR);
CREATE TABLE pg_locks (locktype VARCHAR, database BIGINT, relation BIGINT, pid INTEGER, mode VARCHAR, granted BOOLEAN);
CREATE TABLE pg_stat_activity (datid BIGINT, datname VARCHAR, pid INTEGER, usename VARCHAR, application_name VARCHAR,
  client_addr VARCHAR, backend_start TIMESTAMPTZ, query_start TIMESTAMPTZ, state VARCHAR, query VARCHAR);
CREATE TABLE pg_matviews (schemaname VARCHAR, matviewname VARCHAR, matviewowner VARCHAR, definition VARCHAR);
CREATE TABLE pg_timezone_names (name VARCHAR, abbrev VARCHAR, utc_offset INTERVAL, is_dst BOOLEAN);
INSERT INTO pg_timezone_names VALUES ('UTC', 'UTC', INTERVAL 0 HOUR, false);

-- Aliases begin with hr_: the arguments of a macro are put in as they were written, and must not find ours.
CREATE MACRO format_type(kind, modifier) AS (
  SELECT CASE WHEN hr_t.short IN ('numeric', '_numeric') AND modifier > 4
    THEN 'numeric(' || ((modifier - 4) >> 16) || ',' || ((modifier - 4) & 65535) || ')' || (CASE WHEN hr_t.short = '_numeric' THEN '[]' ELSE '' END)
    ELSE hr_t.name END FROM headrace_types hr_t WHERE hr_t.oid = kind);
CREATE MACRO pg_get_userbyid(role) AS 'headrace';
CREATE MACRO pg_table_is_visible(relation) AS true;
CREATE MACRO pg_type_is_visible(kind) AS true;
CREATE MACRO pg_function_is_visible(function) AS true;
CREATE MACRO pg_encoding_to_char(encoding) AS 'UTF8';
CREATE MACRO pg_char_to_encoding(encoding) AS 6;
CREATE MACRO pg_get_expr(node, relation) AS CAST(NULL AS VARCHAR), (node, relation, pretty) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_viewdef(relation) AS (SELECT hr_d.definition FROM headrace_definitions hr_d WHERE hr_d.oid = CAST(relation AS BIGINT)),
  (relation, pretty) AS (SELECT hr_d.definition FROM headrace_definitions hr_d WHERE hr_d.oid = CAST(relation AS BIGINT));
CREATE MACRO pg_get_indexdef(index) AS (SELECT hr_d.definition FROM headrace_definitions hr_d WHERE hr_d.oid = CAST(index AS BIGINT)),
  (index, position, pretty) AS (SELECT CASE WHEN CAST(position AS BIGINT) = 0 THEN hr_d.definition ELSE hr_a.attname END
    FROM headrace_definitions hr_d LEFT JOIN pg_attribute hr_a ON hr_a.attrelid = hr_d.oid AND hr_a.attnum = CAST(position AS BIGINT)
    WHERE hr_d.oid = CAST(index AS BIGINT));
CREATE MACRO pg_get_constraintdef(c) AS (SELECT hr_d.definition FROM headrace_definitions hr_d WHERE hr_d.oid = CAST(c AS BIGINT)),
  (c, pretty) AS (SELECT hr_d.definition FROM headrace_definitions hr_d WHERE hr_d.oid = CAST(c AS BIGINT));
CREATE MACRO pg_get_ruledef(rule) AS CAST(NULL AS VARCHAR), (rule, pretty) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_triggerdef(trigger) AS CAST(NULL AS VARCHAR), (trigger, pretty) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_result(function) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_arguments(function) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_identity_arguments(function) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_statisticsobjdef_columns(statistics) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_partkeydef(relation) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_serial_sequence(relation, attribute) AS CAST(NULL AS VARCHAR);
CREATE MACRO obj_description(object) AS (SELECT any_value(hr_d.description) FROM pg_description hr_d WHERE hr_d.objoid = object AND hr_d.objsubid = 0),
  (object, kind) AS (SELECT any_value(hr_d.description) FROM pg_description hr_d WHERE hr_d.objoid = object AND hr_d.objsubid = 0);
CREATE MACRO col_description(relation, position) AS CAST(NULL AS VARCHAR);
CREATE MACRO shobj_description(object, kind) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_table_size(relation) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_relation_size(relation) AS CAST(NULL AS BIGINT), (relation, fork) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_total_relation_size(relation) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_database_size(database) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_relation_is_publishable(relation) AS false;
CREATE MACRO pg_is_in_recovery() AS false;
CREATE MACRO pg_tablespace_location(tablespace) AS '';
CREATE MACRO pg_advisory_unlock_all() AS CAST(NULL AS VARCHAR);
CREATE MACRO to_regclass(relation) AS coalesce(
  (SELECT any_value(hr_c.oid) FROM pg_class hr_c WHERE hr_c.relname = regexp_replace(replace(CAST(relation AS VARCHAR), '"', ''), '^.*\.', '')),
  CASE regexp_replace(CAST(relation AS VARCHAR), '^.*\.', '') WHEN 'pg_class' THEN 1259 WHEN 'pg_type' THEN 1247 WHEN 'pg_attribute' THEN 1249
    WHEN 'pg_proc' THEN 1255 WHEN 'pg_namespace' THEN 2615 WHEN 'pg_constraint' THEN 2606 WHEN 'pg_extension' THEN 3079 WHEN 'pg_database' THEN 1262 END,
  TRY_CAST(relation AS BIGINT));
CREATE MACRO to_regtype(kind) AS (SELECT any_value(hr_t.oid) FROM headrace_types hr_t
  WHERE kind IN (hr_t.name, hr_t.short) OR replace(kind, 'pg_catalog.', '') IN (hr_t.name, hr_t.short));
CREATE MACRO to_regnamespace(schema) AS (SELECT any_value(hr_n.oid) FROM pg_namespace hr_n WHERE hr_n.nspname = schema);
CREATE MACRO to_regproc(function) AS CAST(NULL AS BIGINT);
CREATE MACRO array_upper(list, dimension) AS len(list);
CREATE MACRO array_lower(list, dimension) AS 1;
CREATE MACRO array_remove(list, element) AS list_filter(list, lambda each: each <> element);
CREATE MACRO quote_ident(word) AS CASE WHEN regexp_full_match(word, '[a-z_][a-z0-9_]*') THEN word ELSE '"' || replace(word, '"', '""') || '"' END;
CREATE MACRO quote_literal(word) AS '''' || replace(word, '''', '''''') || '''';
CREATE MACRO has_table_privilege(relation, privilege) AS lower(privilege) = 'select', (role, relation, privilege) AS lower(privilege) = 'select';
CREATE MACRO information_schema__pg_expandarray(list) AS unnest(list_transform(list, lambda x, n: {'x': x, 'n': n}));
CREATE MACRO pg_get_keywords() AS TABLE SELECT keyword_name AS word, 'R' AS catcode FROM duckdb_keywords() WHERE keyword_category = 'reserved';
CREATE MACRO format(template, one) AS regexp_replace(template, '%[sIL]', CAST(one AS VARCHAR)),
  (template, one, two) AS regexp_replace(regexp_replace(template, '%[sIL]', CAST(one AS VARCHAR)), '%[sIL]', CAST(two AS VARCHAR));
CREATE MACRO has_any_column_privilege(role, relation, privilege) AS lower(privilege) = 'select';
CREATE MACRO has_schema_privilege(schema, privilege) AS lower(privilege) = 'usage', (role, schema, privilege) AS lower(privilege) = 'usage';
CREATE MACRO has_database_privilege(database, privilege) AS lower(privilege) = 'connect', (role, database, privilege) AS lower(privilege) = 'connect';
CREATE MACRO pg_has_role(role, privilege) AS true, (member, role, privilege) AS true;
CREATE MACRO current_setting(named) AS (SELECT any_value(hr_s.setting) FROM pg_settings hr_s WHERE lower(hr_s.name) = lower(named)),
  (named, absent_ok) AS (SELECT any_value(hr_s.setting) FROM pg_settings hr_s WHERE lower(hr_s.name) = lower(named));
-- Values of a connection, which are put in by rewriting; a result's column has the macro's name.
CREATE MACRO "current_user"(given) AS given;
CREATE MACRO "session_user"(given) AS given;
CREATE MACRO "user"(given) AS given;
CREATE MACRO "current_role"(given) AS given;
CREATE MACRO "current_catalog"(given) AS given;
CREATE MACRO "current_database"(given) AS given;
CREATE MACRO "current_schema"(given) AS given;
CREATE MACRO "version"(given) AS given;
CREATE MACRO "pg_backend_pid"(given) AS given;
CREATE MACRO set_config(named, given, is_local) AS given;

-- The information schema, over what a connection may see.
CREATE VIEW information_schema_schemata AS
  SELECT headrace_database() AS catalog_name, nspname AS schema_name, 'headrace' AS schema_owner FROM pg_namespace;
CREATE VIEW information_schema_tables AS
  SELECT headrace_database() AS table_catalog, 'public' AS table_schema, relname AS table_name,
  CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type, 'NO' AS is_insertable_into
  FROM pg_class WHERE relkind IN ('r', 'v');
CREATE VIEW information_schema_views AS
  SELECT headrace_database() AS table_catalog, 'public' AS table_schema, viewname AS table_name,
  definition AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable FROM pg_views;
CREATE VIEW information_schema_columns AS
  SELECT headrace_database() AS table_catalog, 'public' AS table_schema, c.relname AS table_name,
  a.attname AS column_name, CAST(a.attnum AS INTEGER) AS ordinal_position, CAST(NULL AS VARCHAR) AS column_default,
  CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
  CASE WHEN t.typelem <> 0 AND t.typcategory = 'A' THEN 'ARRAY' ELSE n.name END AS data_type,
  CAST(NULL AS INTEGER) AS character_maximum_length,
  CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24
  WHEN 'float8' THEN 53 WHEN 'numeric' THEN CAST((a.atttypmod - 4) >> 16 AS INTEGER) END AS numeric_precision,
  CASE WHEN t.typname LIKE 'int_' THEN 0 WHEN t.typname = 'numeric' THEN CAST((a.atttypmod - 4) & 65535 AS INTEGER)
  END AS numeric_scale,
  CASE WHEN t.typname = 'date' THEN 0 WHEN t.typcategory IN ('D', 'T') THEN 6 END AS datetime_precision,
  headrace_database() AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name,
  'NO' AS is_identity, 'NEVER' AS is_generated, 'NO' AS is_updatable
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
  JOIN headrace_types n ON n.oid = t.oid WHERE c.relkind IN ('r', 'v');
CREATE VIEW information_schema_table_constraints AS
  SELECT headrace_database() AS constraint_catalog, 'public' AS constraint_schema,
  k.conname AS constraint_name, headrace_database() AS table_catalog, 'public' AS table_schema, c.relname AS table_name,
  'PRIMARY KEY' AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid;
CREATE VIEW information_schema_key_column_usage AS
  SELECT headrace_database() AS constraint_catalog, 'public' AS constraint_schema,
  k.conname AS constraint_name, headrace_database() AS table_catalog, 'public' AS table_schema, c.relname AS table_name,
  a.attname AS column_name, CAST(list_position(k.conkey, a.attnum) AS INTEGER) AS ordinal_position,
  CAST(NULL AS INTEGER) AS position_in_unique_constraint
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
  JOIN pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey, a.attnum);
CREATE VIEW information_schema_referential_constraints AS
  SELECT headrace_database() AS constraint_catalog, 'public' AS constraint_schema,
  conname AS constraint_name FROM pg_constraint WHERE false;
