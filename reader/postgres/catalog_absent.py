"""The columns of the catalogs of what Blockstore does not have, so that they are empty: a client
that looks there finds nothing, and no error. They are spelled as in ``catalog_columns.py``.
"""

from __future__ import annotations

ABSENT = {
    "pg_aggregate": (
        "aggfnoid:t aggkind:t aggnumdirectargs:i aggtransfn:t aggfinalfn:t aggcombinefn:t "
        "aggserialfn:t aggdeserialfn:t aggmtransfn:t aggminvtransfn:t aggmfinalfn:t "
        "aggfinalextra:b aggmfinalextra:b aggfinalmodify:t aggmfinalmodify:t aggsortop:o "
        "aggtranstype:o aggtransspace:i aggmtranstype:o aggmtransspace:i agginitval:t aggminitval:t"
    ),
    "pg_amop": (
        "oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:i amoppurpose:t amopopr:o "
        "amopmethod:o amopsortfamily:o"
    ),
    "pg_amproc": "oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:i amproc:t",
    "pg_available_extension_versions": (
        "name:t version:t installed:b superuser:b trusted:b relocatable:b schema:t requires:x "
        "comment:t"
    ),
    "pg_available_extensions": "name:t default_version:t installed_version:t comment:t",
    "pg_backend_memory_contexts": (
        "name:t ident:t parent:t level:i total_bytes:l total_nblocks:l free_bytes:l free_chunks:l "
        "used_bytes:l"
    ),
    "pg_cast": "oid:o castsource:o casttarget:o castfunc:o castcontext:t castmethod:t",
    "pg_config": "name:t setting:t",
    "pg_conversion": (
        "oid:o conname:t connamespace:o conowner:o conforencoding:i contoencoding:i conproc:t "
        "condefault:b"
    ),
    "pg_cursors": "name:t statement:t is_holdable:b is_binary:b is_scrollable:b creation_time:z",
    "pg_default_acl": "oid:o defaclrole:o defaclnamespace:o defaclobjtype:t defaclacl:x",
    "pg_file_settings": "sourcefile:t sourceline:i seqno:i name:t setting:t applied:b error:t",
    "pg_group": "groname:t grosysid:o grolist:a",
    "pg_hba_file_rules": (
        "line_number:i type:t database:x user_name:x address:t netmask:t auth_method:t options:x "
        "error:t"
    ),
    "pg_ident_file_mappings": "line_number:i map_name:t sys_name:t pg_username:t error:t",
    "pg_init_privs": "objoid:o classoid:o objsubid:i privtype:t initprivs:x",
    "pg_largeobject": "loid:o pageno:i data:t",
    "pg_largeobject_metadata": "oid:o lomowner:o lomacl:x",
    "pg_opfamily": "oid:o opfmethod:o opfname:t opfnamespace:o opfowner:o",
    "pg_parameter_acl": "oid:o parname:t paracl:x",
    "pg_prepared_statements": (
        "name:t statement:t prepare_time:z parameter_types:t from_sql:b generic_plans:l "
        "custom_plans:l"
    ),
    "pg_prepared_xacts": "transaction:o gid:t prepared:z owner:t database:t",
    "pg_publication_tables": "pubname:t schemaname:t tablename:t attnames:x rowfilter:t",
    "pg_replication_origin": "roident:o roname:t",
    "pg_replication_origin_status": "local_id:o external_id:t remote_lsn:t local_lsn:t",
    "pg_replication_slots": (
        "slot_name:t plugin:t slot_type:t datoid:o database:t temporary:b active:b active_pid:i "
        "xmin:o catalog_xmin:o restart_lsn:t confirmed_flush_lsn:t wal_status:t safe_wal_size:l "
        "two_phase:b"
    ),
    "pg_rules": "schemaname:t tablename:t rulename:t definition:t",
    "pg_seclabel": "objoid:o classoid:o objsubid:i provider:t label:t",
    "pg_shadow": (
        "usename:t usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t "
        "valuntil:z useconfig:x"
    ),
    "pg_shdepend": "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:t",
    "pg_shmem_allocations": "name:t off:l size:l allocated_size:l",
    "pg_shseclabel": "objoid:o classoid:o provider:t label:t",
    "pg_stat_all_indexes": (
        "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_scan:l idx_tup_read:l "
        "idx_tup_fetch:l"
    ),
    "pg_stat_archiver": (
        "archived_count:l last_archived_wal:t last_archived_time:z failed_count:l "
        "last_failed_wal:t last_failed_time:z stats_reset:z"
    ),
    "pg_stat_bgwriter": (
        "checkpoints_timed:l checkpoints_req:l checkpoint_write_time:f checkpoint_sync_time:f "
        "buffers_checkpoint:l buffers_clean:l maxwritten_clean:l buffers_backend:l "
        "buffers_backend_fsync:l buffers_alloc:l stats_reset:z"
    ),
    "pg_stat_database": (
        "datid:o datname:t numbackends:i xact_commit:l xact_rollback:l blks_read:l blks_hit:l "
        "tup_returned:l tup_fetched:l tup_inserted:l tup_updated:l tup_deleted:l conflicts:l "
        "temp_files:l temp_bytes:l deadlocks:l checksum_failures:l checksum_last_failure:z "
        "blk_read_time:f blk_write_time:f session_time:f active_time:f idle_in_transaction_time:f "
        "sessions:l sessions_abandoned:l sessions_fatal:l sessions_killed:l stats_reset:z"
    ),
    "pg_stat_database_conflicts": (
        "datid:o datname:t confl_tablespace:l confl_lock:l confl_snapshot:l confl_bufferpin:l "
        "confl_deadlock:l"
    ),
    "pg_stat_gssapi": "pid:i gss_authenticated:b principal:t encrypted:b",
    "pg_stat_progress_analyze": (
        "pid:i datid:o datname:t relid:o phase:t sample_blks_total:l sample_blks_scanned:l "
        "ext_stats_total:l ext_stats_computed:l child_tables_total:l child_tables_done:l "
        "current_child_table_relid:o"
    ),
    "pg_stat_progress_basebackup": (
        "pid:i phase:t backup_total:l backup_streamed:l tablespaces_total:l tablespaces_streamed:l"
    ),
    "pg_stat_progress_cluster": (
        "pid:i datid:o datname:t relid:o command:t phase:t cluster_index_relid:o "
        "heap_tuples_scanned:l heap_tuples_written:l heap_blks_total:l heap_blks_scanned:l "
        "index_rebuild_count:l"
    ),
    "pg_stat_progress_copy": (
        "pid:i datid:o datname:t relid:o command:t type:t bytes_processed:l bytes_total:l "
        "tuples_processed:l tuples_excluded:l"
    ),
    "pg_stat_progress_create_index": (
        "pid:i datid:o datname:t relid:o index_relid:o command:t phase:t lockers_total:l "
        "lockers_done:l current_locker_pid:l blocks_total:l blocks_done:l tuples_total:l "
        "tuples_done:l partitions_total:l partitions_done:l"
    ),
    "pg_stat_progress_vacuum": (
        "pid:i datid:o datname:t relid:o phase:t heap_blks_total:l heap_blks_scanned:l "
        "heap_blks_vacuumed:l index_vacuum_count:l max_dead_tuples:l num_dead_tuples:l"
    ),
    "pg_stat_recovery_prefetch": (
        "stats_reset:z prefetch:l hit:l skip_init:l skip_new:l skip_fpw:l skip_rep:l "
        "wal_distance:i block_distance:i io_depth:i"
    ),
    "pg_stat_replication": (
        "pid:i usesysid:o usename:t application_name:t client_addr:t client_hostname:t "
        "client_port:i backend_start:z backend_xmin:o state:t sent_lsn:t write_lsn:t flush_lsn:t "
        "replay_lsn:t write_lag:t flush_lag:t replay_lag:t sync_priority:i sync_state:t "
        "reply_time:z"
    ),
    "pg_stat_replication_slots": (
        "slot_name:t spill_txns:l spill_count:l spill_bytes:l stream_txns:l stream_count:l "
        "stream_bytes:l total_txns:l total_bytes:l stats_reset:z"
    ),
    "pg_stat_slru": (
        "name:t blks_zeroed:l blks_hit:l blks_read:l blks_written:l blks_exists:l flushes:l "
        "truncates:l stats_reset:z"
    ),
    "pg_stat_ssl": "pid:i ssl:b version:t cipher:t bits:i client_dn:t client_serial:f issuer_dn:t",
    "pg_stat_subscription": (
        "subid:o subname:t pid:i relid:o received_lsn:t last_msg_send_time:z "
        "last_msg_receipt_time:z latest_end_lsn:t latest_end_time:z"
    ),
    "pg_stat_subscription_stats": (
        "subid:o subname:t apply_error_count:l sync_error_count:l stats_reset:z"
    ),
    "pg_stat_sys_indexes": (
        "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_scan:l idx_tup_read:l "
        "idx_tup_fetch:l"
    ),
    "pg_stat_sys_tables": (
        "relid:o schemaname:t relname:t seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l "
        "n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_live_tup:l n_dead_tup:l "
        "n_mod_since_analyze:l n_ins_since_vacuum:l last_vacuum:z last_autovacuum:z last_analyze:z "
        "last_autoanalyze:z vacuum_count:l autovacuum_count:l analyze_count:l autoanalyze_count:l"
    ),
    "pg_stat_user_functions": "funcid:o schemaname:t funcname:t calls:l total_time:f self_time:f",
    "pg_stat_user_indexes": (
        "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_scan:l idx_tup_read:l "
        "idx_tup_fetch:l"
    ),
    "pg_stat_wal": (
        "wal_records:l wal_fpi:l wal_bytes:f wal_buffers_full:l wal_write:l wal_sync:l "
        "wal_write_time:f wal_sync_time:f stats_reset:z"
    ),
    "pg_stat_wal_receiver": (
        "pid:i status:t receive_start_lsn:t receive_start_tli:i written_lsn:t flushed_lsn:t "
        "received_tli:i last_msg_send_time:z last_msg_receipt_time:z latest_end_lsn:t "
        "latest_end_time:z slot_name:t sender_host:t sender_port:i conninfo:t"
    ),
    "pg_statistic": (
        "starelid:o staattnum:i stainherit:b stanullfrac:f stawidth:i stadistinct:f stakind1:i "
        "stakind2:i stakind3:i stakind4:i stakind5:i staop1:o staop2:o staop3:o staop4:o staop5:o "
        "stacoll1:o stacoll2:o stacoll3:o stacoll4:o stacoll5:o stanumbers1:r stanumbers2:r "
        "stanumbers3:r stanumbers4:r stanumbers5:r stavalues1:x stavalues2:x stavalues3:x "
        "stavalues4:x stavalues5:x"
    ),
    "pg_statistic_ext_data": (
        "stxoid:o stxdinherit:b stxdndistinct:t stxddependencies:t stxdmcv:t stxdexpr:t"
    ),
    "pg_stats_ext": (
        "schemaname:t tablename:t statistics_schemaname:t statistics_name:t statistics_owner:t "
        "attnames:x exprs:x kinds:x inherited:b n_distinct:t dependencies:t most_common_vals:x "
        "most_common_val_nulls:t most_common_freqs:t most_common_base_freqs:t"
    ),
    "pg_stats_ext_exprs": (
        "schemaname:t tablename:t statistics_schemaname:t statistics_name:t statistics_owner:t "
        "expr:t inherited:b null_frac:f avg_width:i n_distinct:f most_common_vals:x "
        "most_common_freqs:r histogram_bounds:x correlation:f most_common_elems:x "
        "most_common_elem_freqs:r elem_count_histogram:r"
    ),
    "pg_subscription_rel": "srsubid:o srrelid:o srsubstate:t srsublsn:t",
    "pg_timezone_abbrevs": "abbrev:t utc_offset:t is_dst:b",
    "pg_transform": "oid:o trftype:o trflang:o trffromsql:t trftosql:t",
    "pg_ts_config": "oid:o cfgname:t cfgnamespace:o cfgowner:o cfgparser:o",
    "pg_ts_config_map": "mapcfg:o maptokentype:i mapseqno:i mapdict:o",
    "pg_ts_dict": "oid:o dictname:t dictnamespace:o dictowner:o dicttemplate:o dictinitoption:t",
    "pg_ts_parser": (
        "oid:o prsname:t prsnamespace:o prsstart:t prstoken:t prsend:t prsheadline:t prslextype:t"
    ),
    "pg_ts_template": "oid:o tmplname:t tmplnamespace:o tmplinit:t tmpllexize:t",
    "pg_user_mapping": "oid:o umuser:o umserver:o umoptions:x",
    "pg_user_mappings": "umid:o srvid:o srvname:t umuser:o usename:t umoptions:x",
    "information_schema.administrable_role_authorizations": "grantee:t role_name:t is_grantable:t",
    "information_schema.applicable_roles": "grantee:t role_name:t is_grantable:t",
    "information_schema.attributes": (
        "udt_catalog:t udt_schema:t udt_name:t attribute_name:t ordinal_position:i "
        "attribute_default:t is_nullable:t data_type:t character_maximum_length:i "
        "character_octet_length:i character_set_catalog:t character_set_schema:t "
        "character_set_name:t collation_catalog:t collation_schema:t collation_name:t "
        "numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i "
        "interval_type:t interval_precision:i attribute_udt_catalog:t attribute_udt_schema:t "
        "attribute_udt_name:t scope_catalog:t scope_schema:t scope_name:t maximum_cardinality:i "
        "dtd_identifier:t is_derived_reference_attribute:t"
    ),
    "information_schema.check_constraint_routine_usage": (
        "constraint_catalog:t constraint_schema:t constraint_name:t specific_catalog:t "
        "specific_schema:t specific_name:t"
    ),
    "information_schema.collation_character_set_applicability": (
        "collation_catalog:t collation_schema:t collation_name:t character_set_catalog:t "
        "character_set_schema:t character_set_name:t"
    ),
    "information_schema.collations": (
        "collation_catalog:t collation_schema:t collation_name:t pad_attribute:t"
    ),
    "information_schema.column_column_usage": (
        "table_catalog:t table_schema:t table_name:t column_name:t dependent_column:t"
    ),
    "information_schema.column_domain_usage": (
        "domain_catalog:t domain_schema:t domain_name:t table_catalog:t table_schema:t "
        "table_name:t column_name:t"
    ),
    "information_schema.column_options": (
        "table_catalog:t table_schema:t table_name:t column_name:t option_name:t option_value:t"
    ),
    "information_schema.column_privileges": (
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t column_name:t "
        "privilege_type:t is_grantable:t"
    ),
    "information_schema.column_udt_usage": (
        "udt_catalog:t udt_schema:t udt_name:t table_catalog:t table_schema:t table_name:t "
        "column_name:t"
    ),
    "information_schema.data_type_privileges": (
        "object_catalog:t object_schema:t object_name:t object_type:t dtd_identifier:t"
    ),
    "information_schema.domain_constraints": (
        "constraint_catalog:t constraint_schema:t constraint_name:t domain_catalog:t "
        "domain_schema:t domain_name:t is_deferrable:t initially_deferred:t"
    ),
    "information_schema.domain_udt_usage": (
        "udt_catalog:t udt_schema:t udt_name:t domain_catalog:t domain_schema:t domain_name:t"
    ),
    "information_schema.domains": (
        "domain_catalog:t domain_schema:t domain_name:t data_type:t character_maximum_length:i "
        "character_octet_length:i character_set_catalog:t character_set_schema:t "
        "character_set_name:t collation_catalog:t collation_schema:t collation_name:t "
        "numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i "
        "interval_type:t interval_precision:i domain_default:t udt_catalog:t udt_schema:t "
        "udt_name:t scope_catalog:t scope_schema:t scope_name:t maximum_cardinality:i "
        "dtd_identifier:t"
    ),
    "information_schema.element_types": (
        "object_catalog:t object_schema:t object_name:t object_type:t collection_type_identifier:t "
        "data_type:t character_maximum_length:i character_octet_length:i character_set_catalog:t "
        "character_set_schema:t character_set_name:t collation_catalog:t collation_schema:t "
        "collation_name:t numeric_precision:i numeric_precision_radix:i numeric_scale:i "
        "datetime_precision:i interval_type:t interval_precision:i domain_default:t udt_catalog:t "
        "udt_schema:t udt_name:t scope_catalog:t scope_schema:t scope_name:t maximum_cardinality:i "
        "dtd_identifier:t"
    ),
    "information_schema.foreign_data_wrapper_options": (
        "foreign_data_wrapper_catalog:t foreign_data_wrapper_name:t option_name:t option_value:t"
    ),
    "information_schema.foreign_data_wrappers": (
        "foreign_data_wrapper_catalog:t foreign_data_wrapper_name:t authorization_identifier:t "
        "library_name:t foreign_data_wrapper_language:t"
    ),
    "information_schema.foreign_server_options": (
        "foreign_server_catalog:t foreign_server_name:t option_name:t option_value:t"
    ),
    "information_schema.foreign_servers": (
        "foreign_server_catalog:t foreign_server_name:t foreign_data_wrapper_catalog:t "
        "foreign_data_wrapper_name:t foreign_server_type:t foreign_server_version:t "
        "authorization_identifier:t"
    ),
    "information_schema.foreign_table_options": (
        "foreign_table_catalog:t foreign_table_schema:t foreign_table_name:t option_name:t "
        "option_value:t"
    ),
    "information_schema.foreign_tables": (
        "foreign_table_catalog:t foreign_table_schema:t foreign_table_name:t "
        "foreign_server_catalog:t foreign_server_name:t"
    ),
    "information_schema.role_column_grants": (
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t column_name:t "
        "privilege_type:t is_grantable:t"
    ),
    "information_schema.role_routine_grants": (
        "grantor:t grantee:t specific_catalog:t specific_schema:t specific_name:t "
        "routine_catalog:t routine_schema:t routine_name:t privilege_type:t is_grantable:t"
    ),
    "information_schema.role_udt_grants": (
        "grantor:t grantee:t udt_catalog:t udt_schema:t udt_name:t privilege_type:t is_grantable:t"
    ),
    "information_schema.role_usage_grants": (
        "grantor:t grantee:t object_catalog:t object_schema:t object_name:t object_type:t "
        "privilege_type:t is_grantable:t"
    ),
    "information_schema.routine_column_usage": (
        "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t "
        "routine_name:t table_catalog:t table_schema:t table_name:t column_name:t"
    ),
    "information_schema.routine_privileges": (
        "grantor:t grantee:t specific_catalog:t specific_schema:t specific_name:t "
        "routine_catalog:t routine_schema:t routine_name:t privilege_type:t is_grantable:t"
    ),
    "information_schema.routine_routine_usage": (
        "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t "
        "routine_name:t"
    ),
    "information_schema.routine_sequence_usage": (
        "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t "
        "routine_name:t sequence_catalog:t sequence_schema:t sequence_name:t"
    ),
    "information_schema.routine_table_usage": (
        "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t "
        "routine_name:t table_catalog:t table_schema:t table_name:t"
    ),
    "information_schema.sql_features": (
        "feature_id:t feature_name:t sub_feature_id:t sub_feature_name:t is_supported:t "
        "is_verified_by:t comments:t"
    ),
    "information_schema.sql_implementation_info": (
        "implementation_info_id:t implementation_info_name:t integer_value:i character_value:t "
        "comments:t"
    ),
    "information_schema.sql_parts": (
        "feature_id:t feature_name:t is_supported:t is_verified_by:t comments:t"
    ),
    "information_schema.sql_sizing": "sizing_id:i sizing_name:t supported_value:i comments:t",
    "information_schema.transforms": (
        "udt_catalog:t udt_schema:t udt_name:t specific_catalog:t specific_schema:t "
        "specific_name:t group_name:t transform_type:t"
    ),
    "information_schema.triggered_update_columns": (
        "trigger_catalog:t trigger_schema:t trigger_name:t event_object_catalog:t "
        "event_object_schema:t event_object_table:t event_object_column:t"
    ),
    "information_schema.udt_privileges": (
        "grantor:t grantee:t udt_catalog:t udt_schema:t udt_name:t privilege_type:t is_grantable:t"
    ),
    "information_schema.usage_privileges": (
        "grantor:t grantee:t object_catalog:t object_schema:t object_name:t object_type:t "
        "privilege_type:t is_grantable:t"
    ),
    "information_schema.user_defined_types": (
        "user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t "
        "user_defined_type_category:t is_instantiable:t is_final:t ordering_form:t "
        "ordering_category:t ordering_routine_catalog:t ordering_routine_schema:t "
        "ordering_routine_name:t reference_type:t data_type:t character_maximum_length:i "
        "character_octet_length:i character_set_catalog:t character_set_schema:t "
        "character_set_name:t collation_catalog:t collation_schema:t collation_name:t "
        "numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i "
        "interval_type:t interval_precision:i source_dtd_identifier:t ref_dtd_identifier:t"
    ),
    "information_schema.user_mapping_options": (
        "authorization_identifier:t foreign_server_catalog:t foreign_server_name:t option_name:t "
        "option_value:t"
    ),
    "information_schema.user_mappings": (
        "authorization_identifier:t foreign_server_catalog:t foreign_server_name:t"
    ),
    "information_schema.view_column_usage": (
        "view_catalog:t view_schema:t view_name:t table_catalog:t table_schema:t table_name:t "
        "column_name:t"
    ),
    "information_schema.view_routine_usage": (
        "table_catalog:t table_schema:t table_name:t specific_catalog:t specific_schema:t "
        "specific_name:t"
    ),
    "information_schema.view_table_usage": (
        "view_catalog:t view_schema:t view_name:t table_catalog:t table_schema:t table_name:t"
    ),
}

_TABLE_BLOCKS = (
    "relid:o schemaname:t=public relname:t heap_blks_read:l heap_blks_hit:l idx_blks_read:l "
    "idx_blks_hit:l toast_blks_read:l toast_blks_hit:l tidx_blks_read:l tidx_blks_hit:l"
)
_INDEX_BLOCKS = (
    "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_blks_read:l idx_blks_hit:l"
)
_SEQUENCE_BLOCKS = "relid:o schemaname:t relname:t blks_read:l blks_hit:l"
_CHANGED = (
    "relid:o schemaname:t relname:t seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l "
    "n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l"
)
for _which in ("all", "sys", "user"):
    ABSENT[f"pg_statio_{_which}_tables"] = _TABLE_BLOCKS
    ABSENT[f"pg_statio_{_which}_indexes"] = _INDEX_BLOCKS
    ABSENT[f"pg_statio_{_which}_sequences"] = _SEQUENCE_BLOCKS
    ABSENT[f"pg_stat_xact_{_which}_tables"] = _CHANGED
ABSENT["pg_stat_xact_user_functions"] = ABSENT["pg_stat_user_functions"]
