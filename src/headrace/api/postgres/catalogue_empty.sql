-- What PostgreSQL's catalogue and information schema have and a project has none of: each with all of its columns, as a
-- client that names one that is not there gets an error, and none of its rows.
CREATE TABLE pg_aggregate (aggfnoid BIGINT, aggkind VARCHAR, aggnumdirectargs SMALLINT, aggtransfn BIGINT, aggfinalfn BIGINT, aggcombinefn BIGINT,
  aggserialfn BIGINT, aggdeserialfn BIGINT, aggmtransfn BIGINT, aggminvtransfn BIGINT, aggmfinalfn BIGINT, aggfinalextra BOOLEAN, aggmfinalextra
  BOOLEAN, aggfinalmodify VARCHAR, aggmfinalmodify VARCHAR, aggsortop BIGINT, aggtranstype BIGINT, aggtransspace INTEGER, aggmtranstype BIGINT,
  aggmtransspace INTEGER, agginitval VARCHAR, aggminitval VARCHAR);
CREATE TABLE pg_amop (oid BIGINT, amopfamily BIGINT, amoplefttype BIGINT, amoprighttype BIGINT, amopstrategy SMALLINT, amoppurpose VARCHAR, amopopr
  BIGINT, amopmethod BIGINT, amopsortfamily BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_amproc (oid BIGINT, amprocfamily BIGINT, amproclefttype BIGINT, amprocrighttype BIGINT, amprocnum SMALLINT, amproc BIGINT, tableoid
  BIGINT, xmin BIGINT);
CREATE TABLE pg_attrdef (oid BIGINT, adrelid BIGINT, adnum SMALLINT, adbin VARCHAR, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_auth_members (roleid BIGINT, member BIGINT, grantor BIGINT, admin_option BOOLEAN, oid BIGINT, inherit_option BOOLEAN, set_option
  BOOLEAN);
CREATE TABLE pg_authid (oid BIGINT, rolname VARCHAR, rolsuper BOOLEAN, rolinherit BOOLEAN, rolcreaterole BOOLEAN, rolcreatedb BOOLEAN, rolcanlogin
  BOOLEAN, rolreplication BOOLEAN, rolbypassrls BOOLEAN, rolconnlimit INTEGER, rolpassword VARCHAR, rolvaliduntil TIMESTAMPTZ, tableoid BIGINT, xmin
  BIGINT);
CREATE TABLE pg_available_extension_versions (name VARCHAR, version VARCHAR, installed BOOLEAN, superuser BOOLEAN, trusted BOOLEAN, relocatable
  BOOLEAN, schema VARCHAR, requires VARCHAR[], comment VARCHAR);
CREATE TABLE pg_available_extensions (name VARCHAR, default_version VARCHAR, installed_version VARCHAR, comment VARCHAR);
CREATE TABLE pg_backend_memory_contexts (name VARCHAR, ident VARCHAR, parent VARCHAR, level INTEGER, total_bytes BIGINT, total_nblocks BIGINT,
  free_bytes BIGINT, free_chunks BIGINT, used_bytes BIGINT);
CREATE TABLE pg_cast (oid BIGINT, castsource BIGINT, casttarget BIGINT, castfunc BIGINT, castcontext VARCHAR, castmethod VARCHAR, tableoid BIGINT,
  xmin BIGINT);
CREATE TABLE pg_config (name VARCHAR, setting VARCHAR);
CREATE TABLE pg_conversion (oid BIGINT, conname VARCHAR, connamespace BIGINT, conowner BIGINT, conforencoding INTEGER, contoencoding INTEGER, conproc
  BIGINT, condefault BOOLEAN, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_cursors (name VARCHAR, statement VARCHAR, is_holdable BOOLEAN, is_binary BOOLEAN, is_scrollable BOOLEAN, creation_time TIMESTAMPTZ);
CREATE TABLE pg_db_role_setting (setdatabase BIGINT, setrole BIGINT, setconfig VARCHAR[]);
CREATE TABLE pg_default_acl (oid BIGINT, defaclrole BIGINT, defaclnamespace BIGINT, defaclobjtype VARCHAR, defaclacl VARCHAR[], tableoid BIGINT, xmin
  BIGINT);
CREATE TABLE pg_depend (classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, refobjid BIGINT, refobjsubid INTEGER, deptype VARCHAR);
CREATE TABLE pg_enum (oid BIGINT, enumtypid BIGINT, enumsortorder FLOAT, enumlabel VARCHAR, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_event_trigger (oid BIGINT, evtname VARCHAR, evtevent VARCHAR, evtowner BIGINT, evtfoid BIGINT, evtenabled VARCHAR, evttags VARCHAR[],
  tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_extension (oid BIGINT, extname VARCHAR, extowner BIGINT, extnamespace BIGINT, extrelocatable BOOLEAN, extversion VARCHAR, extconfig
  BIGINT[], extcondition VARCHAR[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_file_settings (sourcefile VARCHAR, sourceline INTEGER, seqno INTEGER, name VARCHAR, setting VARCHAR, applied BOOLEAN, error VARCHAR);
CREATE TABLE pg_foreign_data_wrapper (oid BIGINT, fdwname VARCHAR, fdwowner BIGINT, fdwhandler BIGINT, fdwvalidator BIGINT, fdwacl VARCHAR[],
  fdwoptions VARCHAR[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_foreign_server (oid BIGINT, srvname VARCHAR, srvowner BIGINT, srvfdw BIGINT, srvtype VARCHAR, srvversion VARCHAR, srvacl VARCHAR[],
  srvoptions VARCHAR[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_foreign_table (ftrelid BIGINT, ftserver BIGINT, ftoptions VARCHAR[]);
CREATE TABLE pg_group (groname VARCHAR, grosysid BIGINT, grolist BIGINT[]);
CREATE TABLE pg_hba_file_rules (line_number INTEGER, type VARCHAR, database VARCHAR[], user_name VARCHAR[], address VARCHAR, netmask VARCHAR,
  auth_method VARCHAR, options VARCHAR[], error VARCHAR);
CREATE TABLE pg_ident_file_mappings (line_number INTEGER, map_name VARCHAR, sys_name VARCHAR, pg_username VARCHAR, error VARCHAR);
CREATE TABLE pg_inherits (inhrelid BIGINT, inhparent BIGINT, inhseqno INTEGER, inhdetachpending BOOLEAN);
CREATE TABLE pg_init_privs (objoid BIGINT, classoid BIGINT, objsubid INTEGER, privtype VARCHAR, initprivs VARCHAR[]);
CREATE TABLE pg_largeobject (loid BIGINT, pageno INTEGER, data BLOB);
CREATE TABLE pg_largeobject_metadata (oid BIGINT, lomowner BIGINT, lomacl VARCHAR[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_locks (locktype VARCHAR, database BIGINT, relation BIGINT, page INTEGER, tuple SMALLINT, virtualxid VARCHAR, transactionid BIGINT,
  classid BIGINT, objid BIGINT, objsubid SMALLINT, virtualtransaction VARCHAR, pid INTEGER, mode VARCHAR, granted BOOLEAN, fastpath BOOLEAN, waitstart
  TIMESTAMPTZ);
CREATE TABLE pg_matviews (schemaname VARCHAR, matviewname VARCHAR, matviewowner VARCHAR, tablespace VARCHAR, hasindexes BOOLEAN, ispopulated BOOLEAN,
  definition VARCHAR);
CREATE TABLE pg_opclass (oid BIGINT, opcmethod BIGINT, opcname VARCHAR, opcnamespace BIGINT, opcowner BIGINT, opcfamily BIGINT, opcintype BIGINT,
  opcdefault BOOLEAN, opckeytype BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_operator (oid BIGINT, oprname VARCHAR, oprnamespace BIGINT, oprowner BIGINT, oprkind VARCHAR, oprcanmerge BOOLEAN, oprcanhash BOOLEAN,
  oprleft BIGINT, oprright BIGINT, oprresult BIGINT, oprcom BIGINT, oprnegate BIGINT, oprcode BIGINT, oprrest BIGINT, oprjoin BIGINT, tableoid BIGINT,
  xmin BIGINT);
CREATE TABLE pg_opfamily (oid BIGINT, opfmethod BIGINT, opfname VARCHAR, opfnamespace BIGINT, opfowner BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_parameter_acl (oid BIGINT, parname VARCHAR, paracl VARCHAR[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_partitioned_table (partrelid BIGINT, partstrat VARCHAR, partnatts SMALLINT, partdefid BIGINT, partattrs SMALLINT[], partclass
  BIGINT[], partcollation BIGINT[], partexprs VARCHAR);
CREATE TABLE pg_policies (schemaname VARCHAR, tablename VARCHAR, policyname VARCHAR, permissive VARCHAR, roles VARCHAR[], cmd VARCHAR, qual VARCHAR,
  with_check VARCHAR);
CREATE TABLE pg_policy (oid BIGINT, polname VARCHAR, polrelid BIGINT, polcmd VARCHAR, polpermissive BOOLEAN, polroles BIGINT[], polqual VARCHAR,
  polwithcheck VARCHAR, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_prepared_statements (name VARCHAR, statement VARCHAR, prepare_time TIMESTAMPTZ, parameter_types BIGINT[], from_sql BOOLEAN,
  generic_plans BIGINT, custom_plans BIGINT, result_types BIGINT[]);
CREATE TABLE pg_prepared_xacts (transaction BIGINT, gid VARCHAR, prepared TIMESTAMPTZ, owner VARCHAR, database VARCHAR);
CREATE TABLE pg_proc (oid BIGINT, proname VARCHAR, pronamespace BIGINT, proowner BIGINT, prolang BIGINT, procost FLOAT, prorows FLOAT, provariadic
  BIGINT, prosupport BIGINT, prokind VARCHAR, prosecdef BOOLEAN, proleakproof BOOLEAN, proisstrict BOOLEAN, proretset BOOLEAN, provolatile VARCHAR,
  proparallel VARCHAR, pronargs SMALLINT, pronargdefaults SMALLINT, prorettype BIGINT, proargtypes BIGINT[], proallargtypes BIGINT[], proargmodes
  VARCHAR[], proargnames VARCHAR[], proargdefaults VARCHAR, protrftypes BIGINT[], prosrc VARCHAR, probin VARCHAR, prosqlbody VARCHAR, proconfig
  VARCHAR[], proacl VARCHAR[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_publication (oid BIGINT, pubname VARCHAR, pubowner BIGINT, puballtables BOOLEAN, pubinsert BOOLEAN, pubupdate BOOLEAN, pubdelete
  BOOLEAN, pubtruncate BOOLEAN, pubviaroot BOOLEAN, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_publication_namespace (oid BIGINT, pnpubid BIGINT, pnnspid BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_publication_rel (oid BIGINT, prpubid BIGINT, prrelid BIGINT, prqual VARCHAR, prattrs SMALLINT[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_publication_tables (pubname VARCHAR, schemaname VARCHAR, tablename VARCHAR, attnames VARCHAR[], rowfilter VARCHAR);
CREATE TABLE pg_range (rngtypid BIGINT, rngsubtype BIGINT, rngmultitypid BIGINT, rngcollation BIGINT, rngsubopc BIGINT, rngcanonical BIGINT,
  rngsubdiff BIGINT);
CREATE TABLE pg_replication_origin (roident BIGINT, roname VARCHAR);
CREATE TABLE pg_replication_origin_status (local_id BIGINT, external_id VARCHAR, remote_lsn VARCHAR, local_lsn VARCHAR);
CREATE TABLE pg_replication_slots (slot_name VARCHAR, plugin VARCHAR, slot_type VARCHAR, datoid BIGINT, database VARCHAR, temporary BOOLEAN, active
  BOOLEAN, active_pid INTEGER, xmin BIGINT, catalog_xmin BIGINT, restart_lsn VARCHAR, confirmed_flush_lsn VARCHAR, wal_status VARCHAR, safe_wal_size
  BIGINT, two_phase BOOLEAN);
CREATE TABLE pg_rewrite (oid BIGINT, rulename VARCHAR, ev_class BIGINT, ev_type VARCHAR, ev_enabled VARCHAR, is_instead BOOLEAN, ev_qual VARCHAR,
  ev_action VARCHAR, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_rules (schemaname VARCHAR, tablename VARCHAR, rulename VARCHAR, definition VARCHAR);
CREATE TABLE pg_seclabel (objoid BIGINT, classoid BIGINT, objsubid INTEGER, provider VARCHAR, label VARCHAR);
CREATE TABLE pg_seclabels (objoid BIGINT, classoid BIGINT, objsubid INTEGER, objtype VARCHAR, objnamespace BIGINT, objname VARCHAR, provider VARCHAR,
  label VARCHAR);
CREATE TABLE pg_sequence (seqrelid BIGINT, seqtypid BIGINT, seqstart BIGINT, seqincrement BIGINT, seqmax BIGINT, seqmin BIGINT, seqcache BIGINT,
  seqcycle BOOLEAN);
CREATE TABLE pg_sequences (schemaname VARCHAR, sequencename VARCHAR, sequenceowner VARCHAR, data_type BIGINT, start_value BIGINT, min_value BIGINT,
  max_value BIGINT, increment_by BIGINT, cycle BOOLEAN, cache_size BIGINT, last_value BIGINT);
CREATE TABLE pg_shadow (usename VARCHAR, usesysid BIGINT, usecreatedb BOOLEAN, usesuper BOOLEAN, userepl BOOLEAN, usebypassrls BOOLEAN, passwd
  VARCHAR, valuntil TIMESTAMPTZ, useconfig VARCHAR[]);
CREATE TABLE pg_shdepend (dbid BIGINT, classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, refobjid BIGINT, deptype VARCHAR);
CREATE TABLE pg_shdescription (objoid BIGINT, classoid BIGINT, description VARCHAR);
CREATE TABLE pg_shmem_allocations (name VARCHAR, off BIGINT, size BIGINT, allocated_size BIGINT);
CREATE TABLE pg_shseclabel (objoid BIGINT, classoid BIGINT, provider VARCHAR, label VARCHAR);
CREATE TABLE pg_stat_activity (datid BIGINT, datname VARCHAR, pid INTEGER, leader_pid INTEGER, usesysid BIGINT, usename VARCHAR, application_name
  VARCHAR, client_addr VARCHAR, client_hostname VARCHAR, client_port INTEGER, backend_start TIMESTAMPTZ, xact_start TIMESTAMPTZ, query_start
  TIMESTAMPTZ, state_change TIMESTAMPTZ, wait_event_type VARCHAR, wait_event VARCHAR, state VARCHAR, backend_xid BIGINT, backend_xmin BIGINT, query_id
  BIGINT, query VARCHAR, backend_type VARCHAR);
CREATE TABLE pg_stat_all_indexes (relid BIGINT, indexrelid BIGINT, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_scan BIGINT,
  idx_tup_read BIGINT, idx_tup_fetch BIGINT, last_idx_scan TIMESTAMPTZ);
CREATE TABLE pg_stat_all_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT, n_live_tup BIGINT, n_dead_tup BIGINT,
  n_mod_since_analyze BIGINT, n_ins_since_vacuum BIGINT, last_vacuum TIMESTAMPTZ, last_autovacuum TIMESTAMPTZ, last_analyze TIMESTAMPTZ,
  last_autoanalyze TIMESTAMPTZ, vacuum_count BIGINT, autovacuum_count BIGINT, analyze_count BIGINT, autoanalyze_count BIGINT, last_seq_scan
  TIMESTAMPTZ, last_idx_scan TIMESTAMPTZ, n_tup_newpage_upd BIGINT);
CREATE TABLE pg_stat_archiver (archived_count BIGINT, last_archived_wal VARCHAR, last_archived_time TIMESTAMPTZ, failed_count BIGINT, last_failed_wal
  VARCHAR, last_failed_time TIMESTAMPTZ, stats_reset TIMESTAMPTZ);
CREATE TABLE pg_stat_bgwriter (checkpoints_timed BIGINT, checkpoints_req BIGINT, checkpoint_write_time DOUBLE, checkpoint_sync_time DOUBLE,
  buffers_checkpoint BIGINT, buffers_clean BIGINT, maxwritten_clean BIGINT, buffers_backend BIGINT, buffers_backend_fsync BIGINT, buffers_alloc
  BIGINT, stats_reset TIMESTAMPTZ);
CREATE TABLE pg_stat_database (datid BIGINT, datname VARCHAR, numbackends INTEGER, xact_commit BIGINT, xact_rollback BIGINT, blks_read BIGINT,
  blks_hit BIGINT, tup_returned BIGINT, tup_fetched BIGINT, tup_inserted BIGINT, tup_updated BIGINT, tup_deleted BIGINT, conflicts BIGINT, temp_files
  BIGINT, temp_bytes BIGINT, deadlocks BIGINT, checksum_failures BIGINT, checksum_last_failure TIMESTAMPTZ, blk_read_time DOUBLE, blk_write_time
  DOUBLE, session_time DOUBLE, active_time DOUBLE, idle_in_transaction_time DOUBLE, sessions BIGINT, sessions_abandoned BIGINT, sessions_fatal BIGINT,
  sessions_killed BIGINT, stats_reset TIMESTAMPTZ);
CREATE TABLE pg_stat_database_conflicts (datid BIGINT, datname VARCHAR, confl_tablespace BIGINT, confl_lock BIGINT, confl_snapshot BIGINT,
  confl_bufferpin BIGINT, confl_deadlock BIGINT);
CREATE TABLE pg_stat_gssapi (pid INTEGER, gss_authenticated BOOLEAN, principal VARCHAR, encrypted BOOLEAN);
CREATE TABLE pg_stat_progress_analyze (pid INTEGER, datid BIGINT, datname VARCHAR, relid BIGINT, phase VARCHAR, sample_blks_total BIGINT,
  sample_blks_scanned BIGINT, ext_stats_total BIGINT, ext_stats_computed BIGINT, child_tables_total BIGINT, child_tables_done BIGINT,
  current_child_table_relid BIGINT);
CREATE TABLE pg_stat_progress_basebackup (pid INTEGER, phase VARCHAR, backup_total BIGINT, backup_streamed BIGINT, tablespaces_total BIGINT,
  tablespaces_streamed BIGINT);
CREATE TABLE pg_stat_progress_cluster (pid INTEGER, datid BIGINT, datname VARCHAR, relid BIGINT, command VARCHAR, phase VARCHAR, cluster_index_relid
  BIGINT, heap_tuples_scanned BIGINT, heap_tuples_written BIGINT, heap_blks_total BIGINT, heap_blks_scanned BIGINT, index_rebuild_count BIGINT);
CREATE TABLE pg_stat_progress_copy (pid INTEGER, datid BIGINT, datname VARCHAR, relid BIGINT, command VARCHAR, type VARCHAR, bytes_processed BIGINT,
  bytes_total BIGINT, tuples_processed BIGINT, tuples_excluded BIGINT);
CREATE TABLE pg_stat_progress_create_index (pid INTEGER, datid BIGINT, datname VARCHAR, relid BIGINT, index_relid BIGINT, command VARCHAR, phase
  VARCHAR, lockers_total BIGINT, lockers_done BIGINT, current_locker_pid BIGINT, blocks_total BIGINT, blocks_done BIGINT, tuples_total BIGINT,
  tuples_done BIGINT, partitions_total BIGINT, partitions_done BIGINT);
CREATE TABLE pg_stat_progress_vacuum (pid INTEGER, datid BIGINT, datname VARCHAR, relid BIGINT, phase VARCHAR, heap_blks_total BIGINT,
  heap_blks_scanned BIGINT, heap_blks_vacuumed BIGINT, index_vacuum_count BIGINT, max_dead_tuples BIGINT, num_dead_tuples BIGINT);
CREATE TABLE pg_stat_recovery_prefetch (stats_reset TIMESTAMPTZ, prefetch BIGINT, hit BIGINT, skip_init BIGINT, skip_new BIGINT, skip_fpw BIGINT,
  skip_rep BIGINT, wal_distance INTEGER, block_distance INTEGER, io_depth INTEGER);
CREATE TABLE pg_stat_replication (pid INTEGER, usesysid BIGINT, usename VARCHAR, application_name VARCHAR, client_addr VARCHAR, client_hostname
  VARCHAR, client_port INTEGER, backend_start TIMESTAMPTZ, backend_xmin BIGINT, state VARCHAR, sent_lsn VARCHAR, write_lsn VARCHAR, flush_lsn VARCHAR,
  replay_lsn VARCHAR, write_lag INTERVAL, flush_lag INTERVAL, replay_lag INTERVAL, sync_priority INTEGER, sync_state VARCHAR, reply_time TIMESTAMPTZ);
CREATE TABLE pg_stat_replication_slots (slot_name VARCHAR, spill_txns BIGINT, spill_count BIGINT, spill_bytes BIGINT, stream_txns BIGINT, stream_count
  BIGINT, stream_bytes BIGINT, total_txns BIGINT, total_bytes BIGINT, stats_reset TIMESTAMPTZ);
CREATE TABLE pg_stat_slru (name VARCHAR, blks_zeroed BIGINT, blks_hit BIGINT, blks_read BIGINT, blks_written BIGINT, blks_exists BIGINT, flushes
  BIGINT, truncates BIGINT, stats_reset TIMESTAMPTZ);
CREATE TABLE pg_stat_ssl (pid INTEGER, ssl BOOLEAN, version VARCHAR, cipher VARCHAR, bits INTEGER, client_dn VARCHAR, client_serial DECIMAL(38,0),
  issuer_dn VARCHAR);
CREATE TABLE pg_stat_subscription (subid BIGINT, subname VARCHAR, pid INTEGER, relid BIGINT, received_lsn VARCHAR, last_msg_send_time TIMESTAMPTZ,
  last_msg_receipt_time TIMESTAMPTZ, latest_end_lsn VARCHAR, latest_end_time TIMESTAMPTZ);
CREATE TABLE pg_stat_subscription_stats (subid BIGINT, subname VARCHAR, apply_error_count BIGINT, sync_error_count BIGINT, stats_reset TIMESTAMPTZ);
CREATE TABLE pg_stat_sys_indexes (relid BIGINT, indexrelid BIGINT, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_scan BIGINT,
  idx_tup_read BIGINT, idx_tup_fetch BIGINT, last_idx_scan TIMESTAMPTZ);
CREATE TABLE pg_stat_sys_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT, n_live_tup BIGINT, n_dead_tup BIGINT,
  n_mod_since_analyze BIGINT, n_ins_since_vacuum BIGINT, last_vacuum TIMESTAMPTZ, last_autovacuum TIMESTAMPTZ, last_analyze TIMESTAMPTZ,
  last_autoanalyze TIMESTAMPTZ, vacuum_count BIGINT, autovacuum_count BIGINT, analyze_count BIGINT, autoanalyze_count BIGINT, last_seq_scan
  TIMESTAMPTZ, last_idx_scan TIMESTAMPTZ, n_tup_newpage_upd BIGINT);
CREATE TABLE pg_stat_user_functions (funcid BIGINT, schemaname VARCHAR, funcname VARCHAR, calls BIGINT, total_time DOUBLE, self_time DOUBLE);
CREATE TABLE pg_stat_user_indexes (relid BIGINT, indexrelid BIGINT, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_scan BIGINT,
  idx_tup_read BIGINT, idx_tup_fetch BIGINT, last_idx_scan TIMESTAMPTZ);
CREATE TABLE pg_stat_user_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT, n_live_tup BIGINT, n_dead_tup BIGINT,
  n_mod_since_analyze BIGINT, n_ins_since_vacuum BIGINT, last_vacuum TIMESTAMPTZ, last_autovacuum TIMESTAMPTZ, last_analyze TIMESTAMPTZ,
  last_autoanalyze TIMESTAMPTZ, vacuum_count BIGINT, autovacuum_count BIGINT, analyze_count BIGINT, autoanalyze_count BIGINT, last_seq_scan
  TIMESTAMPTZ, last_idx_scan TIMESTAMPTZ, n_tup_newpage_upd BIGINT);
CREATE TABLE pg_stat_wal (wal_records BIGINT, wal_fpi BIGINT, wal_bytes DECIMAL(38,0), wal_buffers_full BIGINT, wal_write BIGINT, wal_sync BIGINT,
  wal_write_time DOUBLE, wal_sync_time DOUBLE, stats_reset TIMESTAMPTZ);
CREATE TABLE pg_stat_wal_receiver (pid INTEGER, status VARCHAR, receive_start_lsn VARCHAR, receive_start_tli INTEGER, written_lsn VARCHAR, flushed_lsn
  VARCHAR, received_tli INTEGER, last_msg_send_time TIMESTAMPTZ, last_msg_receipt_time TIMESTAMPTZ, latest_end_lsn VARCHAR, latest_end_time
  TIMESTAMPTZ, slot_name VARCHAR, sender_host VARCHAR, sender_port INTEGER, conninfo VARCHAR);
CREATE TABLE pg_stat_xact_all_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT);
CREATE TABLE pg_stat_xact_sys_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT);
CREATE TABLE pg_stat_xact_user_functions (funcid BIGINT, schemaname VARCHAR, funcname VARCHAR, calls BIGINT, total_time DOUBLE, self_time DOUBLE);
CREATE TABLE pg_stat_xact_user_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, seq_scan BIGINT, seq_tup_read BIGINT, idx_scan BIGINT,
  idx_tup_fetch BIGINT, n_tup_ins BIGINT, n_tup_upd BIGINT, n_tup_del BIGINT, n_tup_hot_upd BIGINT);
CREATE TABLE pg_statio_all_indexes (relid BIGINT, indexrelid BIGINT, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_blks_read BIGINT,
  idx_blks_hit BIGINT);
CREATE TABLE pg_statio_all_sequences (relid BIGINT, schemaname VARCHAR, relname VARCHAR, blks_read BIGINT, blks_hit BIGINT);
CREATE TABLE pg_statio_all_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, heap_blks_read BIGINT, heap_blks_hit BIGINT, idx_blks_read
  BIGINT, idx_blks_hit BIGINT, toast_blks_read BIGINT, toast_blks_hit BIGINT, tidx_blks_read BIGINT, tidx_blks_hit BIGINT);
CREATE TABLE pg_statio_sys_indexes (relid BIGINT, indexrelid BIGINT, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_blks_read BIGINT,
  idx_blks_hit BIGINT);
CREATE TABLE pg_statio_sys_sequences (relid BIGINT, schemaname VARCHAR, relname VARCHAR, blks_read BIGINT, blks_hit BIGINT);
CREATE TABLE pg_statio_sys_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, heap_blks_read BIGINT, heap_blks_hit BIGINT, idx_blks_read
  BIGINT, idx_blks_hit BIGINT, toast_blks_read BIGINT, toast_blks_hit BIGINT, tidx_blks_read BIGINT, tidx_blks_hit BIGINT);
CREATE TABLE pg_statio_user_indexes (relid BIGINT, indexrelid BIGINT, schemaname VARCHAR, relname VARCHAR, indexrelname VARCHAR, idx_blks_read BIGINT,
  idx_blks_hit BIGINT);
CREATE TABLE pg_statio_user_sequences (relid BIGINT, schemaname VARCHAR, relname VARCHAR, blks_read BIGINT, blks_hit BIGINT);
CREATE TABLE pg_statio_user_tables (relid BIGINT, schemaname VARCHAR, relname VARCHAR, heap_blks_read BIGINT, heap_blks_hit BIGINT, idx_blks_read
  BIGINT, idx_blks_hit BIGINT, toast_blks_read BIGINT, toast_blks_hit BIGINT, tidx_blks_read BIGINT, tidx_blks_hit BIGINT);
CREATE TABLE pg_statistic (starelid BIGINT, staattnum SMALLINT, stainherit BOOLEAN, stanullfrac FLOAT, stawidth INTEGER, stadistinct FLOAT, stakind1
  SMALLINT, stakind2 SMALLINT, stakind3 SMALLINT, stakind4 SMALLINT, stakind5 SMALLINT, staop1 BIGINT, staop2 BIGINT, staop3 BIGINT, staop4 BIGINT,
  staop5 BIGINT, stacoll1 BIGINT, stacoll2 BIGINT, stacoll3 BIGINT, stacoll4 BIGINT, stacoll5 BIGINT, stanumbers1 FLOAT[], stanumbers2 FLOAT[],
  stanumbers3 FLOAT[], stanumbers4 FLOAT[], stanumbers5 FLOAT[], stavalues1 VARCHAR, stavalues2 VARCHAR, stavalues3 VARCHAR, stavalues4 VARCHAR,
  stavalues5 VARCHAR);
CREATE TABLE pg_statistic_ext (oid BIGINT, stxrelid BIGINT, stxname VARCHAR, stxnamespace BIGINT, stxowner BIGINT, stxstattarget INTEGER, stxkeys
  SMALLINT[], stxkind VARCHAR[], stxexprs VARCHAR, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_statistic_ext_data (stxoid BIGINT, stxdinherit BOOLEAN, stxdndistinct VARCHAR, stxddependencies VARCHAR, stxdmcv VARCHAR, stxdexpr
  VARCHAR[]);
CREATE TABLE pg_stats (schemaname VARCHAR, tablename VARCHAR, attname VARCHAR, inherited BOOLEAN, null_frac FLOAT, avg_width INTEGER, n_distinct
  FLOAT, most_common_vals VARCHAR, most_common_freqs FLOAT[], histogram_bounds VARCHAR, correlation FLOAT, most_common_elems VARCHAR,
  most_common_elem_freqs FLOAT[], elem_count_histogram FLOAT[]);
CREATE TABLE pg_stats_ext (schemaname VARCHAR, tablename VARCHAR, statistics_schemaname VARCHAR, statistics_name VARCHAR, statistics_owner VARCHAR,
  attnames VARCHAR[], exprs VARCHAR[], kinds VARCHAR[], inherited BOOLEAN, n_distinct VARCHAR, dependencies VARCHAR, most_common_vals VARCHAR[],
  most_common_val_nulls BOOLEAN[], most_common_freqs DOUBLE[], most_common_base_freqs DOUBLE[]);
CREATE TABLE pg_stats_ext_exprs (schemaname VARCHAR, tablename VARCHAR, statistics_schemaname VARCHAR, statistics_name VARCHAR, statistics_owner
  VARCHAR, expr VARCHAR, inherited BOOLEAN, null_frac FLOAT, avg_width INTEGER, n_distinct FLOAT, most_common_vals VARCHAR, most_common_freqs FLOAT[],
  histogram_bounds VARCHAR, correlation FLOAT, most_common_elems VARCHAR, most_common_elem_freqs FLOAT[], elem_count_histogram FLOAT[]);
CREATE TABLE pg_subscription (oid BIGINT, subdbid BIGINT, subskiplsn VARCHAR, subname VARCHAR, subowner BIGINT, subenabled BOOLEAN, subbinary BOOLEAN,
  substream BOOLEAN, subtwophasestate VARCHAR, subdisableonerr BOOLEAN, subconninfo VARCHAR, subslotname VARCHAR, subsynccommit VARCHAR,
  subpublications VARCHAR[], tableoid BIGINT, xmin BIGINT, subpasswordrequired BOOLEAN, subrunasowner BOOLEAN, suborigin VARCHAR);
CREATE TABLE pg_subscription_rel (srsubid BIGINT, srrelid BIGINT, srsubstate VARCHAR, srsublsn VARCHAR);
CREATE TABLE pg_timezone_abbrevs (abbrev VARCHAR, utc_offset INTERVAL, is_dst BOOLEAN);
CREATE TABLE pg_transform (oid BIGINT, trftype BIGINT, trflang BIGINT, trffromsql BIGINT, trftosql BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_trigger (oid BIGINT, tgrelid BIGINT, tgparentid BIGINT, tgname VARCHAR, tgfoid BIGINT, tgtype SMALLINT, tgenabled VARCHAR,
  tgisinternal BOOLEAN, tgconstrrelid BIGINT, tgconstrindid BIGINT, tgconstraint BIGINT, tgdeferrable BOOLEAN, tginitdeferred BOOLEAN, tgnargs
  SMALLINT, tgattr SMALLINT[], tgargs BLOB, tgqual VARCHAR, tgoldtable VARCHAR, tgnewtable VARCHAR, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_ts_config (oid BIGINT, cfgname VARCHAR, cfgnamespace BIGINT, cfgowner BIGINT, cfgparser BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_ts_config_map (mapcfg BIGINT, maptokentype INTEGER, mapseqno INTEGER, mapdict BIGINT);
CREATE TABLE pg_ts_dict (oid BIGINT, dictname VARCHAR, dictnamespace BIGINT, dictowner BIGINT, dicttemplate BIGINT, dictinitoption VARCHAR, tableoid
  BIGINT, xmin BIGINT);
CREATE TABLE pg_ts_parser (oid BIGINT, prsname VARCHAR, prsnamespace BIGINT, prsstart BIGINT, prstoken BIGINT, prsend BIGINT, prsheadline BIGINT,
  prslextype BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_ts_template (oid BIGINT, tmplname VARCHAR, tmplnamespace BIGINT, tmplinit BIGINT, tmpllexize BIGINT, tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_user_mapping (oid BIGINT, umuser BIGINT, umserver BIGINT, umoptions VARCHAR[], tableoid BIGINT, xmin BIGINT);
CREATE TABLE pg_user_mappings (umid BIGINT, srvid BIGINT, srvname VARCHAR, umuser BIGINT, usename VARCHAR, umoptions VARCHAR[]);
CREATE TABLE information_schema_administrable_role_authorizations (grantee VARCHAR, role_name VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_applicable_roles (grantee VARCHAR, role_name VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_attributes (udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, attribute_name VARCHAR, ordinal_position
  INTEGER, attribute_default VARCHAR, is_nullable VARCHAR, data_type VARCHAR, character_maximum_length INTEGER, character_octet_length INTEGER,
  character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR, collation_catalog VARCHAR, collation_schema VARCHAR,
  collation_name VARCHAR, numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale INTEGER, datetime_precision INTEGER, interval_type
  VARCHAR, interval_precision INTEGER, attribute_udt_catalog VARCHAR, attribute_udt_schema VARCHAR, attribute_udt_name VARCHAR, scope_catalog VARCHAR,
  scope_schema VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER, dtd_identifier VARCHAR, is_derived_reference_attribute VARCHAR);
CREATE TABLE information_schema_character_sets (character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR,
  character_repertoire VARCHAR, form_of_use VARCHAR, default_collate_catalog VARCHAR, default_collate_schema VARCHAR, default_collate_name VARCHAR);
CREATE TABLE information_schema_check_constraint_routine_usage (constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR,
  specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR);
CREATE TABLE information_schema_check_constraints (constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR, check_clause
  VARCHAR);
CREATE TABLE information_schema_collation_character_set_applicability (collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR,
  character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR);
CREATE TABLE information_schema_collations (collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR, pad_attribute VARCHAR);
CREATE TABLE information_schema_column_column_usage (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR,
  dependent_column VARCHAR);
CREATE TABLE information_schema_column_domain_usage (domain_catalog VARCHAR, domain_schema VARCHAR, domain_name VARCHAR, table_catalog VARCHAR,
  table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR);
CREATE TABLE information_schema_column_options (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR, option_name
  VARCHAR, option_value VARCHAR);
CREATE TABLE information_schema_column_privileges (grantor VARCHAR, grantee VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR,
  column_name VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_column_udt_usage (udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, table_catalog VARCHAR, table_schema
  VARCHAR, table_name VARCHAR, column_name VARCHAR);
CREATE TABLE information_schema_constraint_table_usage (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, constraint_catalog VARCHAR,
  constraint_schema VARCHAR, constraint_name VARCHAR);
CREATE TABLE information_schema_data_type_privileges (object_catalog VARCHAR, object_schema VARCHAR, object_name VARCHAR, object_type VARCHAR,
  dtd_identifier VARCHAR);
CREATE TABLE information_schema_domain_constraints (constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR, domain_catalog
  VARCHAR, domain_schema VARCHAR, domain_name VARCHAR, is_deferrable VARCHAR, initially_deferred VARCHAR);
CREATE TABLE information_schema_domain_udt_usage (udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, domain_catalog VARCHAR, domain_schema
  VARCHAR, domain_name VARCHAR);
CREATE TABLE information_schema_domains (domain_catalog VARCHAR, domain_schema VARCHAR, domain_name VARCHAR, data_type VARCHAR,
  character_maximum_length INTEGER, character_octet_length INTEGER, character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name
  VARCHAR, collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR, numeric_precision INTEGER, numeric_precision_radix INTEGER,
  numeric_scale INTEGER, datetime_precision INTEGER, interval_type VARCHAR, interval_precision INTEGER, domain_default VARCHAR, udt_catalog VARCHAR,
  udt_schema VARCHAR, udt_name VARCHAR, scope_catalog VARCHAR, scope_schema VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER, dtd_identifier
  VARCHAR);
CREATE TABLE information_schema_element_types (object_catalog VARCHAR, object_schema VARCHAR, object_name VARCHAR, object_type VARCHAR,
  collection_type_identifier VARCHAR, data_type VARCHAR, character_maximum_length INTEGER, character_octet_length INTEGER, character_set_catalog
  VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR, collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR,
  numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale INTEGER, datetime_precision INTEGER, interval_type VARCHAR,
  interval_precision INTEGER, domain_default VARCHAR, udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, scope_catalog VARCHAR, scope_schema
  VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER, dtd_identifier VARCHAR);
CREATE TABLE information_schema_enabled_roles (role_name VARCHAR);
CREATE TABLE information_schema_foreign_data_wrapper_options (foreign_data_wrapper_catalog VARCHAR, foreign_data_wrapper_name VARCHAR, option_name
  VARCHAR, option_value VARCHAR);
CREATE TABLE information_schema_foreign_data_wrappers (foreign_data_wrapper_catalog VARCHAR, foreign_data_wrapper_name VARCHAR,
  authorization_identifier VARCHAR, library_name VARCHAR, foreign_data_wrapper_language VARCHAR);
CREATE TABLE information_schema_foreign_server_options (foreign_server_catalog VARCHAR, foreign_server_name VARCHAR, option_name VARCHAR, option_value
  VARCHAR);
CREATE TABLE information_schema_foreign_servers (foreign_server_catalog VARCHAR, foreign_server_name VARCHAR, foreign_data_wrapper_catalog VARCHAR,
  foreign_data_wrapper_name VARCHAR, foreign_server_type VARCHAR, foreign_server_version VARCHAR, authorization_identifier VARCHAR);
CREATE TABLE information_schema_foreign_table_options (foreign_table_catalog VARCHAR, foreign_table_schema VARCHAR, foreign_table_name VARCHAR,
  option_name VARCHAR, option_value VARCHAR);
CREATE TABLE information_schema_foreign_tables (foreign_table_catalog VARCHAR, foreign_table_schema VARCHAR, foreign_table_name VARCHAR,
  foreign_server_catalog VARCHAR, foreign_server_name VARCHAR);
CREATE TABLE information_schema_information_schema_catalog_name (catalog_name VARCHAR);
CREATE TABLE information_schema_parameters (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR, ordinal_position INTEGER,
  parameter_mode VARCHAR, is_result VARCHAR, as_locator VARCHAR, parameter_name VARCHAR, data_type VARCHAR, character_maximum_length INTEGER,
  character_octet_length INTEGER, character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR, collation_catalog VARCHAR,
  collation_schema VARCHAR, collation_name VARCHAR, numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale INTEGER,
  datetime_precision INTEGER, interval_type VARCHAR, interval_precision INTEGER, udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR,
  scope_catalog VARCHAR, scope_schema VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER, dtd_identifier VARCHAR, parameter_default VARCHAR);
CREATE TABLE information_schema_referential_constraints (constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR,
  unique_constraint_catalog VARCHAR, unique_constraint_schema VARCHAR, unique_constraint_name VARCHAR, match_option VARCHAR, update_rule VARCHAR,
  delete_rule VARCHAR);
CREATE TABLE information_schema_role_column_grants (grantor VARCHAR, grantee VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR,
  column_name VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_role_routine_grants (grantor VARCHAR, grantee VARCHAR, specific_catalog VARCHAR, specific_schema VARCHAR,
  specific_name VARCHAR, routine_catalog VARCHAR, routine_schema VARCHAR, routine_name VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_role_table_grants (grantor VARCHAR, grantee VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR,
  privilege_type VARCHAR, is_grantable VARCHAR, with_hierarchy VARCHAR);
CREATE TABLE information_schema_role_udt_grants (grantor VARCHAR, grantee VARCHAR, udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR,
  privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_role_usage_grants (grantor VARCHAR, grantee VARCHAR, object_catalog VARCHAR, object_schema VARCHAR, object_name
  VARCHAR, object_type VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_routine_column_usage (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR, routine_catalog
  VARCHAR, routine_schema VARCHAR, routine_name VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR);
CREATE TABLE information_schema_routine_privileges (grantor VARCHAR, grantee VARCHAR, specific_catalog VARCHAR, specific_schema VARCHAR, specific_name
  VARCHAR, routine_catalog VARCHAR, routine_schema VARCHAR, routine_name VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_routine_routine_usage (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR, routine_catalog
  VARCHAR, routine_schema VARCHAR, routine_name VARCHAR);
CREATE TABLE information_schema_routine_sequence_usage (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR, routine_catalog
  VARCHAR, routine_schema VARCHAR, routine_name VARCHAR, sequence_catalog VARCHAR, sequence_schema VARCHAR, sequence_name VARCHAR);
CREATE TABLE information_schema_routine_table_usage (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR, routine_catalog
  VARCHAR, routine_schema VARCHAR, routine_name VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR);
CREATE TABLE information_schema_routines (specific_catalog VARCHAR, specific_schema VARCHAR, specific_name VARCHAR, routine_catalog VARCHAR,
  routine_schema VARCHAR, routine_name VARCHAR, routine_type VARCHAR, module_catalog VARCHAR, module_schema VARCHAR, module_name VARCHAR, udt_catalog
  VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, data_type VARCHAR, character_maximum_length INTEGER, character_octet_length INTEGER,
  character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name VARCHAR, collation_catalog VARCHAR, collation_schema VARCHAR,
  collation_name VARCHAR, numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale INTEGER, datetime_precision INTEGER, interval_type
  VARCHAR, interval_precision INTEGER, type_udt_catalog VARCHAR, type_udt_schema VARCHAR, type_udt_name VARCHAR, scope_catalog VARCHAR, scope_schema
  VARCHAR, scope_name VARCHAR, maximum_cardinality INTEGER, dtd_identifier VARCHAR, routine_body VARCHAR, routine_definition VARCHAR, external_name
  VARCHAR, external_language VARCHAR, parameter_style VARCHAR, is_deterministic VARCHAR, sql_data_access VARCHAR, is_null_call VARCHAR, sql_path
  VARCHAR, schema_level_routine VARCHAR, max_dynamic_result_sets INTEGER, is_user_defined_cast VARCHAR, is_implicitly_invocable VARCHAR, security_type
  VARCHAR, to_sql_specific_catalog VARCHAR, to_sql_specific_schema VARCHAR, to_sql_specific_name VARCHAR, as_locator VARCHAR, created TIMESTAMPTZ,
  last_altered TIMESTAMPTZ, new_savepoint_level VARCHAR, is_udt_dependent VARCHAR, result_cast_from_data_type VARCHAR, result_cast_as_locator VARCHAR,
  result_cast_char_max_length INTEGER, result_cast_char_octet_length INTEGER, result_cast_char_set_catalog VARCHAR, result_cast_char_set_schema
  VARCHAR, result_cast_char_set_name VARCHAR, result_cast_collation_catalog VARCHAR, result_cast_collation_schema VARCHAR, result_cast_collation_name
  VARCHAR, result_cast_numeric_precision INTEGER, result_cast_numeric_precision_radix INTEGER, result_cast_numeric_scale INTEGER,
  result_cast_datetime_precision INTEGER, result_cast_interval_type VARCHAR, result_cast_interval_precision INTEGER, result_cast_type_udt_catalog
  VARCHAR, result_cast_type_udt_schema VARCHAR, result_cast_type_udt_name VARCHAR, result_cast_scope_catalog VARCHAR, result_cast_scope_schema
  VARCHAR, result_cast_scope_name VARCHAR, result_cast_maximum_cardinality INTEGER, result_cast_dtd_identifier VARCHAR);
CREATE TABLE information_schema_sequences (sequence_catalog VARCHAR, sequence_schema VARCHAR, sequence_name VARCHAR, data_type VARCHAR,
  numeric_precision INTEGER, numeric_precision_radix INTEGER, numeric_scale INTEGER, start_value VARCHAR, minimum_value VARCHAR, maximum_value
  VARCHAR, increment VARCHAR, cycle_option VARCHAR);
CREATE TABLE information_schema_sql_features (feature_id VARCHAR, feature_name VARCHAR, sub_feature_id VARCHAR, sub_feature_name VARCHAR, is_supported
  VARCHAR, is_verified_by VARCHAR, comments VARCHAR);
CREATE TABLE information_schema_sql_implementation_info (implementation_info_id VARCHAR, implementation_info_name VARCHAR, integer_value INTEGER,
  character_value VARCHAR, comments VARCHAR);
CREATE TABLE information_schema_sql_parts (feature_id VARCHAR, feature_name VARCHAR, is_supported VARCHAR, is_verified_by VARCHAR, comments VARCHAR);
CREATE TABLE information_schema_sql_sizing (sizing_id INTEGER, sizing_name VARCHAR, supported_value INTEGER, comments VARCHAR);
CREATE TABLE information_schema_table_privileges (grantor VARCHAR, grantee VARCHAR, table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR,
  privilege_type VARCHAR, is_grantable VARCHAR, with_hierarchy VARCHAR);
CREATE TABLE information_schema_transforms (udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR, specific_catalog VARCHAR, specific_schema
  VARCHAR, specific_name VARCHAR, group_name VARCHAR, transform_type VARCHAR);
CREATE TABLE information_schema_triggered_update_columns (trigger_catalog VARCHAR, trigger_schema VARCHAR, trigger_name VARCHAR, event_object_catalog
  VARCHAR, event_object_schema VARCHAR, event_object_table VARCHAR, event_object_column VARCHAR);
CREATE TABLE information_schema_triggers (trigger_catalog VARCHAR, trigger_schema VARCHAR, trigger_name VARCHAR, event_manipulation VARCHAR,
  event_object_catalog VARCHAR, event_object_schema VARCHAR, event_object_table VARCHAR, action_order INTEGER, action_condition VARCHAR,
  action_statement VARCHAR, action_orientation VARCHAR, action_timing VARCHAR, action_reference_old_table VARCHAR, action_reference_new_table VARCHAR,
  action_reference_old_row VARCHAR, action_reference_new_row VARCHAR, created TIMESTAMPTZ);
CREATE TABLE information_schema_udt_privileges (grantor VARCHAR, grantee VARCHAR, udt_catalog VARCHAR, udt_schema VARCHAR, udt_name VARCHAR,
  privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_usage_privileges (grantor VARCHAR, grantee VARCHAR, object_catalog VARCHAR, object_schema VARCHAR, object_name
  VARCHAR, object_type VARCHAR, privilege_type VARCHAR, is_grantable VARCHAR);
CREATE TABLE information_schema_user_defined_types (user_defined_type_catalog VARCHAR, user_defined_type_schema VARCHAR, user_defined_type_name
  VARCHAR, user_defined_type_category VARCHAR, is_instantiable VARCHAR, is_final VARCHAR, ordering_form VARCHAR, ordering_category VARCHAR,
  ordering_routine_catalog VARCHAR, ordering_routine_schema VARCHAR, ordering_routine_name VARCHAR, reference_type VARCHAR, data_type VARCHAR,
  character_maximum_length INTEGER, character_octet_length INTEGER, character_set_catalog VARCHAR, character_set_schema VARCHAR, character_set_name
  VARCHAR, collation_catalog VARCHAR, collation_schema VARCHAR, collation_name VARCHAR, numeric_precision INTEGER, numeric_precision_radix INTEGER,
  numeric_scale INTEGER, datetime_precision INTEGER, interval_type VARCHAR, interval_precision INTEGER, source_dtd_identifier VARCHAR,
  ref_dtd_identifier VARCHAR);
CREATE TABLE information_schema_user_mapping_options (authorization_identifier VARCHAR, foreign_server_catalog VARCHAR, foreign_server_name VARCHAR,
  option_name VARCHAR, option_value VARCHAR);
CREATE TABLE information_schema_user_mappings (authorization_identifier VARCHAR, foreign_server_catalog VARCHAR, foreign_server_name VARCHAR);
CREATE TABLE information_schema_view_column_usage (view_catalog VARCHAR, view_schema VARCHAR, view_name VARCHAR, table_catalog VARCHAR, table_schema
  VARCHAR, table_name VARCHAR, column_name VARCHAR);
CREATE TABLE information_schema_view_routine_usage (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, specific_catalog VARCHAR,
  specific_schema VARCHAR, specific_name VARCHAR);
CREATE TABLE information_schema_view_table_usage (view_catalog VARCHAR, view_schema VARCHAR, view_name VARCHAR, table_catalog VARCHAR, table_schema
  VARCHAR, table_name VARCHAR);
