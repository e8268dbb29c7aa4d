-- What clients ask of PostgreSQL's catalogue and is the same for every project: names that DuckDB lacks or has otherwise.
CREATE TYPE name AS VARCHAR;
CREATE TYPE regclass AS BIGINT;
CREATE TYPE regtype AS BIGINT;
CREATE TYPE regproc AS BIGINT;
CREATE TYPE regprocedure AS BIGINT;
CREATE TYPE regoper AS BIGINT;
CREATE TYPE regoperator AS BIGINT;
CREATE TYPE regrole AS BIGINT;
CREATE TYPE regcollation AS BIGINT;
CREATE TYPE regconfig AS BIGINT;
CREATE TYPE regdictionary AS BIGINT;
CREATE TYPE regnamespace AS BIGINT;
CREATE TYPE xid AS BIGINT;
CREATE TYPE jsonb AS JSON;

CREATE TABLE pg_namespace (oid BIGINT, nspname VARCHAR, nspowner BIGINT, nspacl VARCHAR[], tableoid BIGINT, xmin BIGINT);
INSERT INTO pg_namespace VALUES (11, 'pg_catalog', 10, NULL, 2615, 1), (2200, 'public', 10, NULL, 2615, 1),
  (13000, 'information_schema', 10, NULL, 2615, 1);
CREATE TABLE pg_am (oid BIGINT, amname VARCHAR, amhandler BIGINT, amtype VARCHAR);
INSERT INTO pg_am VALUES (2, 'heap', 0, 't'), (403, 'btree', 0, 'i');
CREATE TABLE pg_collation (oid BIGINT, collname VARCHAR, collnamespace BIGINT, collowner BIGINT, collprovider VARCHAR,
  collisdeterministic BOOLEAN, collencoding INTEGER, collcollate VARCHAR, collctype VARCHAR, colliculocale VARCHAR,
  collicurules VARCHAR, collversion VARCHAR);
INSERT INTO pg_collation VALUES (100, 'default', 11, 10, 'd', true, -1, NULL, NULL, NULL, NULL, NULL),
  (950, 'C', 11, 10, 'c', true, -1, 'C', 'C', NULL, NULL, NULL);
CREATE TABLE pg_tablespace (oid BIGINT, spcname VARCHAR, spcowner BIGINT, spcacl VARCHAR[], spcoptions VARCHAR[], tableoid BIGINT, xmin BIGINT);
INSERT INTO pg_tablespace VALUES (1663, 'pg_default', 10, NULL, NULL, 1213, 1);
CREATE TABLE pg_language (oid BIGINT, lanname VARCHAR, lanowner BIGINT, lanispl BOOLEAN, lanpltrusted BOOLEAN, lanplcallfoid BIGINT,
  laninline BIGINT, lanvalidator BIGINT, lanacl VARCHAR[], tableoid BIGINT, xmin BIGINT);
INSERT INTO pg_language VALUES (12, 'internal', 10, false, false, 0, 0, 0, NULL, 2612, 1), (13, 'c', 10, false, false, 0, 0, 0, NULL, 2612, 1),
  (14, 'sql', 10, false, true, 0, 0, 0, NULL, 2612, 1);
INSERT INTO pg_proc (oid, proname, pronamespace, proowner, prolang, prokind, proretset, provolatile, pronargs, prorettype) VALUES
  (750, 'array_in', 11, 10, 12, 'f', false, 's', 3, 2277), (751, 'array_out', 11, 10, 12, 'f', false, 's', 1, 2275),
  (2400, 'array_recv', 11, 10, 12, 'f', false, 's', 3, 2277), (2401, 'array_send', 11, 10, 12, 'f', false, 's', 1, 17),
  (6179, 'array_subscript_handler', 11, 10, 12, 'f', false, 'i', 1, 2281);
INSERT INTO pg_proc (oid, proname, pronamespace, proowner, prolang, prokind, proretset, provolatile, pronargs, prorettype)
  SELECT number, name, 11, 10, 12, 'f', false, 'i', 1, hr_t.oid FROM (VALUES (2436, 'boolrecv'), (2412, 'bytearecv'), (2434, 'charrecv'),
    (2422, 'namerecv'), (2408, 'int8recv'), (2404, 'int2recv'), (2406, 'int4recv'), (2414, 'textrecv'), (2418, 'oidrecv'), (323, 'json_recv'),
    (2424, 'float4recv'), (2426, 'float8recv'), (2416, 'unknownrecv'), (2430, 'bpcharrecv'), (2432, 'varcharrecv'), (2468, 'date_recv'),
    (2470, 'time_recv'), (2474, 'timestamp_recv'), (2476, 'timestamptz_recv'), (2478, 'interval_recv'), (2460, 'numeric_recv'),
    (2452, 'regclassrecv'), (2454, 'regtyperecv'), (2961, 'uuid_recv'), (3805, 'jsonb_recv')) AS receiving (number, name)
  JOIN pg_type hr_t ON name IN (hr_t.typname || 'recv', hr_t.typname || '_recv');
UPDATE pg_type SET typreceive = pg_proc.oid FROM pg_proc WHERE prorettype = pg_type.oid AND ends_with(proname, 'recv');
CREATE TABLE pg_timezone_names (name VARCHAR, abbrev VARCHAR, utc_offset INTERVAL, is_dst BOOLEAN);
INSERT INTO pg_timezone_names VALUES ('UTC', 'UTC', INTERVAL 0 HOUR, false);

-- Aliases begin with hr_: the arguments of a macro are put in as they were written, and must not find ours.
CREATE MACRO quote_ident(word) AS CASE WHEN regexp_full_match(word, '[a-z_][a-z0-9_]*') THEN word ELSE '"' || replace(word, '"', '""') || '"' END;
CREATE MACRO parse_ident(word) AS list_transform(regexp_extract_all(word, '"[^"]*"|[^.]+'),
  lambda part: CASE WHEN part LIKE '"%' THEN trim(part, '"') ELSE lower(part) END);
CREATE MACRO quote_literal(word) AS '''' || replace(word, '''', '''''') || '''';
CREATE MACRO quote_nullable(word) AS coalesce(quote_literal(word), 'NULL');
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
CREATE MACRO pg_tablespace_size(tablespace) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_indexes_size(relation) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_relation_filenode(relation) AS CAST(relation AS BIGINT);
CREATE MACRO pg_relation_filepath(relation) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_statistics_obj_is_visible(statistics) AS true;
CREATE MACRO pg_get_function_sqlbody(function) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_functiondef(function) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_function_arg_default(function, argument) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_statisticsobjdef(statistics) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_get_statisticsobjdef_expressions(statistics) AS CAST(NULL AS VARCHAR[]);
CREATE MACRO pg_get_partition_constraintdef(relation) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_describe_object(class, object, part) AS CAST(NULL AS VARCHAR);
CREATE MACRO pg_indexam_has_property(method, property) AS CAST(NULL AS BOOLEAN);
CREATE MACRO pg_index_column_has_property(index, position, property) AS CAST(NULL AS BOOLEAN);
CREATE MACRO pg_sequence_last_value(sequence) AS CAST(NULL AS BIGINT);
CREATE MACRO pg_stat_get_numscans(relation) AS CAST(0 AS BIGINT);
CREATE MACRO pg_stat_get_live_tuples(relation) AS CAST(0 AS BIGINT);
CREATE MACRO pg_blocking_pids(process) AS CAST([] AS INTEGER[]);
CREATE MACRO pg_encoding_max_length(encoding) AS 4;
CREATE MACRO pg_client_encoding() AS 'UTF8';
CREATE MACRO pg_notification_queue_usage() AS CAST(0 AS DOUBLE);
CREATE MACRO pg_options_to_table(options) AS TABLE SELECT CAST(NULL AS VARCHAR) AS option_name, CAST(NULL AS VARCHAR) AS option_value WHERE false;
CREATE MACRO pg_partition_tree(relation) AS TABLE SELECT CAST(NULL AS BIGINT) AS relid, CAST(NULL AS BIGINT) AS parentrelid,
  CAST(NULL AS BOOLEAN) AS isleaf, CAST(NULL AS INTEGER) AS level WHERE false;
CREATE MACRO pg_partition_ancestors(relation) AS TABLE SELECT CAST(NULL AS BIGINT) AS relid WHERE false;
CREATE MACRO pg_listening_channels() AS TABLE SELECT CAST(NULL AS VARCHAR) AS pg_listening_channels WHERE false;
CREATE MACRO acldefault(kind, owner) AS CAST(NULL AS VARCHAR[]);
CREATE MACRO aclexplode(acl) AS TABLE SELECT CAST(NULL AS BIGINT) AS grantor, CAST(NULL AS BIGINT) AS grantee,
  CAST(NULL AS VARCHAR) AS privilege_type, CAST(NULL AS BOOLEAN) AS is_grantable WHERE false;
CREATE MACRO row_security_active(relation) AS false;
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
  WHERE kind IN (hr_t.name, hr_t.short) OR replace(replace(kind, '"', ''), 'pg_catalog.', '') IN (hr_t.name, hr_t.short)
  OR hr_t.short = CASE kind WHEN 'int' THEN 'int4' WHEN 'decimal' THEN 'numeric' WHEN 'float' THEN 'float8' END);
CREATE MACRO to_regnamespace(schema) AS (SELECT any_value(hr_n.oid) FROM pg_namespace hr_n WHERE hr_n.nspname = schema);
CREATE MACRO to_regproc(function) AS (SELECT any_value(hr_p.oid) FROM pg_proc hr_p
  WHERE hr_p.proname = regexp_replace(CAST(function AS VARCHAR), '^.*\.', ''));
CREATE MACRO to_regrole(role) AS CAST(10 AS BIGINT);
CREATE MACRO headrace_name_regclass(object) AS coalesce(
  (SELECT any_value(quote_ident(hr_c.relname)) FROM pg_class hr_c WHERE hr_c.oid = object),
  CASE CAST(object AS BIGINT) WHEN 0 THEN '-' WHEN 1259 THEN 'pg_class' WHEN 1247 THEN 'pg_type' WHEN 1249 THEN 'pg_attribute'
    WHEN 1255 THEN 'pg_proc' WHEN 2615 THEN 'pg_namespace' WHEN 2606 THEN 'pg_constraint' WHEN 1262 THEN 'pg_database' END,
  CAST(object AS VARCHAR));
CREATE MACRO headrace_name_regtype(object) AS coalesce(format_type(object, NULL), CASE CAST(object AS BIGINT) WHEN 0 THEN '-' END,
  CAST(object AS VARCHAR));
CREATE MACRO headrace_name_regnamespace(object) AS coalesce(
  (SELECT any_value(hr_n.nspname) FROM pg_namespace hr_n WHERE hr_n.oid = object), CAST(object AS VARCHAR));
CREATE MACRO headrace_name_regproc(object) AS coalesce(
  (SELECT any_value(hr_p.proname) FROM pg_proc hr_p WHERE hr_p.oid = object), CASE CAST(object AS BIGINT) WHEN 0 THEN '-' END,
  CAST(object AS VARCHAR));
CREATE MACRO headrace_name_regrole(object) AS pg_get_userbyid(object);
CREATE MACRO current_schemas(implicit) AS CASE WHEN implicit THEN ['pg_catalog', 'public'] ELSE ['public'] END;
CREATE MACRO array_ndims(list) AS CASE WHEN len(list) > 0 THEN 1 END;
CREATE MACRO array_upper(list, dimension) AS len(list);
CREATE MACRO array_lower(list, dimension) AS 1;
CREATE MACRO array_remove(list, element) AS list_filter(list, lambda each: each <> element);
CREATE MACRO has_table_privilege(relation, privilege) AS lower(privilege) = 'select', (role, relation, privilege) AS lower(privilege) = 'select';
CREATE MACRO information_schema__pg_expandarray(list) AS unnest(list_transform(list, lambda x, n: {'x': x, 'n': CAST(n AS INTEGER)}));
CREATE MACRO pg_get_keywords() AS TABLE SELECT keyword_name AS word, 'R' AS catcode FROM duckdb_keywords() WHERE keyword_category = 'reserved';
CREATE MACRO headrace_formatted(template, one) AS regexp_replace(template, '%[sIL]', replace(CASE regexp_extract(template, '%([sIL])', 1)
  WHEN 'I' THEN quote_ident(CAST(one AS VARCHAR)) WHEN 'L' THEN quote_nullable(CAST(one AS VARCHAR)) ELSE coalesce(CAST(one AS VARCHAR), '') END, '\', '\\'));
CREATE MACRO format(template) AS replace(template, '%%', '%'), (template, one) AS headrace_formatted(template, one),
  (template, one, two) AS headrace_formatted(headrace_formatted(template, one), two),
  (template, one, two, three) AS headrace_formatted(headrace_formatted(headrace_formatted(template, one), two), three);
CREATE MACRO has_any_column_privilege(relation, privilege) AS lower(privilege) = 'select', (role, relation, privilege) AS lower(privilege) = 'select';
CREATE MACRO has_type_privilege(kind, privilege) AS lower(privilege) = 'usage', (role, kind, privilege) AS lower(privilege) = 'usage';
CREATE MACRO has_schema_privilege(schema, privilege) AS lower(privilege) = 'usage', (role, schema, privilege) AS lower(privilege) = 'usage';
CREATE MACRO has_database_privilege(database, privilege) AS lower(privilege) = 'connect', (role, database, privilege) AS lower(privilege) = 'connect';
CREATE MACRO pg_has_role(role, privilege) AS true, (member, role, privilege) AS true;
CREATE MACRO current_setting(named) AS (SELECT any_value(hr_s.setting) FROM pg_settings hr_s WHERE lower(hr_s.name) = lower(named)),
  (named, absent_ok) AS (SELECT any_value(hr_s.setting) FROM pg_settings hr_s WHERE lower(hr_s.name) = lower(named));

-- Functions of which DuckDB has others by the same name, or none.
CREATE MACRO to_char(value, pattern) AS headrace_to_char(typeof(value), CAST(value AS VARCHAR), pattern);
CREATE MACRO to_timestamp(epoch) AS system.main.to_timestamp(epoch),
  (text, pattern) AS CAST(headrace_to_timestamp(CAST(text AS VARCHAR), pattern) AS TIMESTAMP WITH TIME ZONE);
CREATE MACRO to_date(text, pattern) AS CAST(CAST(headrace_to_timestamp(CAST(text AS VARCHAR), pattern) AS TIMESTAMP WITH TIME ZONE) AS DATE);
CREATE MACRO generate_series(first, last) AS unnest(system.main.generate_series(first, last)),
  (first, last, step) AS unnest(system.main.generate_series(first, last, step));
CREATE MACRO generate_subscripts(list, dimension) AS unnest(system.main.generate_series(1, len(list)));
CREATE MACRO pg_size_pretty(size) AS CASE WHEN abs(size) < 10240 THEN size || ' bytes'
  WHEN abs(size) < 10485248 THEN CAST(round(size / 1024.0) AS BIGINT) || ' kB'
  WHEN abs(size) < 10736893952 THEN CAST(round(size / 1048576.0) AS BIGINT) || ' MB'
  WHEN abs(size) < 10994579406848 THEN CAST(round(size / 1073741824.0) AS BIGINT) || ' GB'
  ELSE CAST(round(size / 1099511627776.0) AS BIGINT) || ' TB' END;
CREATE MACRO width_bucket(operand, thresholds) AS CAST(len(list_filter(thresholds, lambda each: each <= operand)) AS INTEGER),
  (operand, low, high, count) AS CAST(CASE WHEN low = high OR count < 1 THEN error('width_bucket: bounds are equal, or no buckets')
    WHEN low < high THEN CASE WHEN operand < low THEN 0 WHEN operand >= high THEN count + 1
      ELSE floor((CAST(operand AS DOUBLE) - low) * count / (CAST(high AS DOUBLE) - low)) + 1 END
    WHEN operand > low THEN 0 WHEN operand <= high THEN count + 1
    ELSE floor((CAST(low AS DOUBLE) - operand) * count / (CAST(low AS DOUBLE) - high)) + 1 END AS INTEGER);
CREATE MACRO date_bin(stride, moment, origin) AS time_bucket(CAST(stride AS INTERVAL), moment, origin);
CREATE MACRO clock_timestamp() AS now();
CREATE MACRO statement_timestamp() AS now();
CREATE MACRO string_to_array(text, separator) AS TABLE SELECT system.main.string_to_array(text, separator) AS string_to_array;
CREATE MACRO btrim(text) AS trim(text), (text, characters) AS trim(text, characters);
CREATE MACRO lpad(text, size) AS system.main.lpad(text, size, ' '), (text, size, fill) AS system.main.lpad(text, size, fill);
CREATE MACRO rpad(text, size) AS system.main.rpad(text, size, ' '), (text, size, fill) AS system.main.rpad(text, size, fill);

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
CREATE MACRO headrace_setting(given) AS given;
CREATE MACRO set_config(named, given, is_local) AS given;

-- The information schema, over what a connection may see.
CREATE MACRO headrace_absent() AS CAST(NULL AS VARCHAR);
CREATE VIEW information_schema_schemata AS
  SELECT headrace_database() AS catalog_name, nspname AS schema_name, 'headrace' AS schema_owner,
  headrace_absent() AS default_character_set_catalog, headrace_absent() AS default_character_set_schema,
  headrace_absent() AS default_character_set_name, headrace_absent() AS sql_path FROM pg_namespace;
CREATE VIEW information_schema_tables AS
  SELECT headrace_database() AS table_catalog, 'public' AS table_schema, relname AS table_name,
  CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
  headrace_absent() AS self_referencing_column_name, headrace_absent() AS reference_generation,
  headrace_absent() AS user_defined_type_catalog, headrace_absent() AS user_defined_type_schema,
  headrace_absent() AS user_defined_type_name, 'NO' AS is_insertable_into, 'NO' AS is_typed,
  headrace_absent() AS commit_action
  FROM pg_class WHERE relkind IN ('r', 'v');
CREATE VIEW information_schema_views AS
  SELECT headrace_database() AS table_catalog, 'public' AS table_schema, viewname AS table_name,
  definition AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS is_insertable_into,
  'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into FROM pg_views;
CREATE VIEW information_schema_columns AS
  SELECT headrace_database() AS table_catalog, 'public' AS table_schema, c.relname AS table_name,
  a.attname AS column_name, CAST(a.attnum AS INTEGER) AS ordinal_position, headrace_absent() AS column_default,
  CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
  CASE WHEN t.typelem <> 0 AND t.typcategory = 'A' THEN 'ARRAY' ELSE n.name END AS data_type,
  CAST(NULL AS INTEGER) AS character_maximum_length,
  CASE WHEN t.typname = 'text' THEN 1073741824 END AS character_octet_length,
  CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24
  WHEN 'float8' THEN 53 WHEN 'numeric' THEN CAST((a.atttypmod - 4) >> 16 AS INTEGER) END AS numeric_precision,
  CASE WHEN t.typname = 'numeric' THEN 10 WHEN t.typcategory = 'N' THEN 2 END AS numeric_precision_radix,
  CASE WHEN t.typname LIKE 'int_' THEN 0 WHEN t.typname = 'numeric' THEN CAST((a.atttypmod - 4) & 65535 AS INTEGER)
  END AS numeric_scale,
  CASE WHEN t.typname = 'date' THEN 0 WHEN t.typcategory IN ('D', 'T') THEN 6 END AS datetime_precision,
  headrace_absent() AS interval_type, CAST(NULL AS INTEGER) AS interval_precision,
  headrace_absent() AS character_set_catalog, headrace_absent() AS character_set_schema,
  headrace_absent() AS character_set_name, headrace_absent() AS collation_catalog,
  headrace_absent() AS collation_schema, headrace_absent() AS collation_name,
  headrace_absent() AS domain_catalog, headrace_absent() AS domain_schema, headrace_absent() AS domain_name,
  headrace_database() AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name,
  headrace_absent() AS scope_catalog, headrace_absent() AS scope_schema, headrace_absent() AS scope_name,
  CAST(NULL AS INTEGER) AS maximum_cardinality, CAST(a.attnum AS VARCHAR) AS dtd_identifier, 'NO' AS is_self_referencing,
  'NO' AS is_identity, headrace_absent() AS identity_generation, headrace_absent() AS identity_start,
  headrace_absent() AS identity_increment, headrace_absent() AS identity_maximum,
  headrace_absent() AS identity_minimum, 'NO' AS identity_cycle, 'NEVER' AS is_generated,
  headrace_absent() AS generation_expression, 'NO' AS is_updatable
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
  JOIN headrace_types n ON n.oid = t.oid WHERE c.relkind IN ('r', 'v') ORDER BY c.relname, a.attnum;
CREATE VIEW information_schema_table_constraints AS
  SELECT headrace_database() AS constraint_catalog, 'public' AS constraint_schema,
  k.conname AS constraint_name, headrace_database() AS table_catalog, 'public' AS table_schema, c.relname AS table_name,
  'PRIMARY KEY' AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced,
  headrace_absent() AS nulls_distinct
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid;
CREATE VIEW information_schema_key_column_usage AS
  SELECT headrace_database() AS constraint_catalog, 'public' AS constraint_schema,
  k.conname AS constraint_name, headrace_database() AS table_catalog, 'public' AS table_schema, c.relname AS table_name,
  a.attname AS column_name, CAST(list_position(k.conkey, a.attnum) AS INTEGER) AS ordinal_position,
  CAST(NULL AS INTEGER) AS position_in_unique_constraint
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
  JOIN pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey, a.attnum);
CREATE VIEW information_schema_constraint_column_usage AS
  SELECT table_catalog, table_schema, table_name, column_name, constraint_catalog, constraint_schema, constraint_name
  FROM information_schema_key_column_usage;
