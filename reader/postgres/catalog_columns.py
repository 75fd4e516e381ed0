"""The columns of PostgreSQL's catalogs: for each its type, and the value that it has where nothing
else is known.

A type is a letter: ``o`` an OID, ``i`` and ``l`` an integer of 32 and 64 bits, ``t`` a text, ``b``
true or false, ``f`` a double, ``z`` an instant, ``a`` a list of integers, ``r`` a list of doubles,
``x`` a list of texts. A default follows ``=``; without one it is null.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from blockstore.reader.postgres.catalog_absent import ABSENT

PREFIX = "catalog:"
"""What the names of catalogs begin with in the engine's SQL; no table and no WITH has it."""

_KINDS = {
    "o": pa.uint32(),
    "i": pa.int32(),
    "t": pa.string(),
    "b": pa.bool_(),
    "f": pa.float64(),
    "l": pa.int64(),
    "z": pa.timestamp("us", "UTC"),
    "a": pa.list_(pa.int32()),
    "v": pa.list_(pa.uint16()),
    "r": pa.list_(pa.float64()),
    "x": pa.list_(pa.string()),
}

_SPELLED = {
    "pg_am": "oid:o amname:t amhandler:t amtype:t=i",
    "pg_attrdef": "oid:o adrelid:o adnum:i adbin:t",
    "pg_attribute": (
        "attrelid:o attname:t atttypid:o attstattarget:i=-1 attlen:i=-1 attnum:i attndims:i=0 "
        "attcacheoff:i=-1 atttypmod:i=-1 attbyval:b=f attalign:t=i attstorage:t=p "
        "attcompression:t= attnotnull:b=f atthasdef:b=f atthasmissing:b=f attidentity:t= "
        "attgenerated:t= attisdropped:b=f attislocal:b=t attinhcount:i=0 attcollation:o=0 attacl:x "
        "attoptions:x attfdwoptions:x attmissingval:x"
    ),
    "pg_authid": (
        "oid:o rolname:t rolsuper:b=f rolinherit:b=t rolcreaterole:b=f rolcreatedb:b=f "
        "rolcanlogin:b=t rolreplication:b=f rolbypassrls:b=f rolconnlimit:i=-1 rolpassword:t "
        "rolvaliduntil:z"
    ),
    "pg_class": (
        "oid:o relname:t relnamespace:o=2200 reltype:o=0 reloftype:o=0 relowner:o=10 relam:o=2 "
        "relfilenode:o=0 reltablespace:o=0 relpages:i=0 reltuples:f=-1 relallvisible:i=0 "
        "reltoastrelid:o=0 relhasindex:b=f relisshared:b=f relpersistence:t=p relkind:t=r "
        "relnatts:i=0 relchecks:i=0 relhasrules:b=f relhastriggers:b=f relhassubclass:b=f "
        "relrowsecurity:b=f relforcerowsecurity:b=f relispopulated:b=t relreplident:t=d "
        "relispartition:b=f relrewrite:o=0 relfrozenxid:o=0 relminmxid:o=0 relacl:x reloptions:x "
        "relpartbound:t"
    ),
    "pg_collation": (
        "oid:o collname:t collnamespace:o collowner:o collprovider:t collisdeterministic:b "
        "collencoding:i collcollate:t collctype:t colliculocale:t collversion:t"
    ),
    "pg_constraint": (
        "oid:o conname:t connamespace:o=2200 contype:t condeferrable:b=f condeferred:b=f "
        "convalidated:b=t conrelid:o contypid:o=0 conindid:o=0 conparentid:o=0 confrelid:o=0 "
        "confupdtype:t=a confdeltype:t=a confmatchtype:t=s conislocal:b=t coninhcount:i=0 "
        "connoinherit:b=t conkey:a confkey:a conpfeqop:a conppeqop:a conffeqop:a confdelsetcols:a "
        "conexclop:a conbin:t"
    ),
    "pg_get_keywords": "word:t catcode:t=R catdesc:t=reserved",
    "pg_database": (
        "oid:o datname:t datdba:o=10 encoding:i=6 datlocprovider:t=c datistemplate:b=f "
        "datallowconn:b=t datconnlimit:i=-1 datfrozenxid:o=0 datminmxid:o=0 dattablespace:o=1663 "
        "datcollate:t=C datctype:t=C daticulocale:t datcollversion:t datacl:x datlastsysoid:o=0"
    ),
    "pg_db_role_setting": "setdatabase:o setrole:o setconfig:x",
    "pg_depend": "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:t",
    "pg_description": "objoid:o classoid:o=1259 objsubid:i=0 description:t",
    "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel:t",
    "pg_event_trigger": "oid:o evtname:t evtevent:t evtowner:o evtfoid:o evtenabled:t evttags:x",
    "pg_extension": (
        "oid:o extname:t extowner:o extnamespace:o extrelocatable:b extversion:t extconfig:a "
        "extcondition:x"
    ),
    "pg_foreign_server": (
        "oid:o srvname:t srvowner:o srvfdw:o srvtype:t srvversion:t srvacl:x srvoptions:x"
    ),
    "pg_foreign_table": "ftrelid:o ftserver:o ftoptions:x",
    "pg_foreign_data_wrapper": (
        "oid:o fdwname:t fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:x fdwoptions:x"
    ),
    "pg_index": (
        "indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b=t indnullsnotdistinct:b=f "
        "indisprimary:b=t indisexclusion:b=f indimmediate:b=t indisclustered:b=f indisvalid:b=t "
        "indcheckxmin:b=f indisready:b=t indislive:b=t indisreplident:b=f indkey:v indcollation:a "
        "indclass:a indoption:v indexprs:t indpred:t"
    ),
    "pg_indexes": "schemaname:t=public tablename:t indexname:t tablespace:t indexdef:t",
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_language": (
        "oid:o lanname:t lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o "
        "lanvalidator:o lanacl:x"
    ),
    "pg_locks": (
        "locktype:t database:o relation:o page:i tuple:i virtualxid:t transactionid:o classid:o "
        "objid:o objsubid:i virtualtransaction:t pid:i mode:t granted:b fastpath:b waitstart:z"
    ),
    "pg_matviews": (
        "schemaname:t matviewname:t matviewowner:t tablespace:t hasindexes:b ispopulated:b "
        "definition:t"
    ),
    "pg_namespace": "oid:o nspname:t nspowner:o=10 nspacl:x",
    "pg_opclass": (
        "oid:o opcmethod:o opcname:t opcnamespace:o opcowner:o opcfamily:o opcintype:o "
        "opcdefault:b opckeytype:o"
    ),
    "pg_operator": (
        "oid:o oprname:t oprnamespace:o oprowner:o oprkind:t oprcanmerge:b oprcanhash:b oprleft:o "
        "oprright:o oprresult:o oprcom:o oprnegate:o oprcode:t oprrest:t oprjoin:t"
    ),
    "pg_partitioned_table": (
        "partrelid:o partstrat:t partnatts:i partdefid:o partattrs:a partclass:a partcollation:a "
        "partexprs:t"
    ),
    "pg_policy": (
        "oid:o polname:t polrelid:o polcmd:t polpermissive:b polroles:a polqual:t polwithcheck:t"
    ),
    "pg_policies": (
        "schemaname:t tablename:t policyname:t permissive:t roles:x cmd:t qual:t with_check:t"
    ),
    "pg_proc": (
        "oid:o proname:t pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o "
        "prosupport:t prokind:t prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:t "
        "proparallel:t pronargs:i pronargdefaults:i prorettype:o proargtypes:a proallargtypes:a "
        "proargmodes:x proargnames:x proargdefaults:t protrftypes:a prosrc:t probin:t prosqlbody:t "
        "proconfig:x proacl:x"
    ),
    "pg_publication": (
        "oid:o pubname:t pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b "
        "pubtruncate:b pubviaroot:b"
    ),
    "pg_publication_namespace": "oid:o pnpubid:o pnnspid:o",
    "pg_publication_rel": "oid:o prpubid:o prrelid:o prqual:t prattrs:a",
    "pg_range": (
        "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:t "
        "rngsubdiff:t"
    ),
    "pg_rewrite": (
        "oid:o rulename:t ev_class:o ev_type:t ev_enabled:t is_instead:b ev_qual:t ev_action:t"
    ),
    "pg_roles": (
        "oid:o rolname:t rolsuper:b=f rolinherit:b=t rolcreaterole:b=f rolcreatedb:b=f "
        "rolcanlogin:b=t rolreplication:b=f rolconnlimit:i=-1 rolpassword:t rolvaliduntil:t "
        "rolbypassrls:b=f rolconfig:x"
    ),
    "pg_auth_members": "roleid:o member:o grantor:o admin_option:b",
    "pg_sequence": (
        "seqrelid:o seqtypid:o seqstart:o seqincrement:o seqmax:o seqmin:o seqcache:o seqcycle:b"
    ),
    "pg_sequences": (
        "schemaname:t sequencename:t sequenceowner:t data_type:t start_value:o min_value:l "
        "max_value:l increment_by:l cycle:b cache_size:l last_value:l"
    ),
    "pg_settings": (
        "name:t setting:t unit:t category:t= short_desc:t= extra_desc:t context:t=user "
        "vartype:t=string source:t=default min_val:t max_val:t enumvals:x boot_val:t reset_val:t "
        "sourcefile:t sourceline:i pending_restart:b=f"
    ),
    "pg_shdescription": "objoid:o classoid:o description:t",
    "pg_seclabels": (
        "objoid:o classoid:o objsubid:i objtype:t objnamespace:o objname:t provider:t label:t"
    ),
    "pg_stat_activity": (
        "datid:o datname:t pid:i leader_pid:i usesysid:o=10 usename:t application_name:t "
        "client_addr:t client_hostname:t client_port:i backend_start:z xact_start:z query_start:z "
        "state_change:z wait_event_type:t wait_event:t state:t backend_xid:o backend_xmin:o "
        "query_id:l query:t backend_type:t=client\u00a0backend"
    ),
    "pg_stat_user_tables": (
        "relid:o schemaname:t relname:t seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l "
        "n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_live_tup:o n_dead_tup:o "
        "n_mod_since_analyze:l n_ins_since_vacuum:l last_vacuum:z last_autovacuum:z last_analyze:z "
        "last_autoanalyze:z vacuum_count:l autovacuum_count:l analyze_count:l autoanalyze_count:l"
    ),
    "pg_stat_all_tables": (
        "relid:o schemaname:t relname:t seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l "
        "n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_live_tup:o n_dead_tup:o "
        "n_mod_since_analyze:l n_ins_since_vacuum:l last_vacuum:z last_autovacuum:z last_analyze:z "
        "last_autoanalyze:z vacuum_count:l autovacuum_count:l analyze_count:l autoanalyze_count:l"
    ),
    "pg_statistic_ext": (
        "oid:o stxrelid:o stxname:t stxnamespace:o stxowner:o stxstattarget:i stxkeys:a stxkind:x "
        "stxexprs:t"
    ),
    "pg_stats": (
        "schemaname:t tablename:t attname:t inherited:b null_frac:f avg_width:i n_distinct:f "
        "most_common_vals:x most_common_freqs:r histogram_bounds:x correlation:f "
        "most_common_elems:x most_common_elem_freqs:r elem_count_histogram:r"
    ),
    "pg_subscription": (
        "oid:o subdbid:o subskiplsn:t subname:t subowner:o subenabled:b subbinary:b substream:b "
        "subtwophasestate:t subdisableonerr:b subconninfo:t subslotname:t subsynccommit:t "
        "subpublications:x"
    ),
    "pg_tables": (
        "schemaname:t=public tablename:t tableowner:t tablespace:t hasindexes:b=f hasrules:b=f "
        "hastriggers:b=f rowsecurity:b=f"
    ),
    "pg_tablespace": "oid:o spcname:t spcowner:o=10 spcacl:x spcoptions:x",
    "pg_timezone_names": "name:t abbrev:t utc_offset:t is_dst:b=f",
    "pg_trigger": (
        "oid:o tgrelid:o tgparentid:o tgname:t tgfoid:o tgtype:i tgenabled:t tgisinternal:b "
        "tgconstrrelid:o tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:i "
        "tgattr:a tgargs:t tgqual:t tgoldtable:t tgnewtable:t"
    ),
    "pg_type": (
        "oid:o typname:t typnamespace:o=11 typowner:o=10 typlen:i typbyval:b=f typtype:t "
        "typcategory:t typispreferred:b=f typisdefined:b=t typdelim:t=, typrelid:o=0 "
        "typsubscript:t=- typelem:o=0 typarray:o=0 typinput:t typoutput:t typreceive:t typsend:t "
        "typmodin:t=- typmodout:t=- typanalyze:t=- typalign:t=i typstorage:t=p typnotnull:b=f "
        "typbasetype:o=0 typtypmod:i=-1 typndims:i=0 typcollation:o=0 typdefaultbin:t typdefault:t "
        "typacl:x"
    ),
    "pg_user": (
        "usename:t usesysid:o usecreatedb:b=f usesuper:b=f userepl:b=f usebypassrls:b=f passwd:t "
        "valuntil:z useconfig:x"
    ),
    "pg_views": "schemaname:t viewname:t viewowner:t definition:t",
    "information_schema.character_sets": (
        "character_set_catalog:t character_set_schema:t character_set_name:t "
        "character_repertoire:t form_of_use:t default_collate_catalog:t default_collate_schema:t "
        "default_collate_name:t"
    ),
    "information_schema.check_constraints": (
        "constraint_catalog:t constraint_schema:t constraint_name:t check_clause:t"
    ),
    "information_schema.columns": (
        "table_catalog:t table_schema:t=public table_name:t column_name:t ordinal_position:i "
        "column_default:t is_nullable:t data_type:t character_maximum_length:i "
        "character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i "
        "datetime_precision:i interval_type:t interval_precision:i character_set_catalog:t "
        "character_set_schema:t character_set_name:t collation_catalog:t collation_schema:t "
        "collation_name:t domain_catalog:t domain_schema:t domain_name:t udt_catalog:t "
        "udt_schema:t=pg_catalog udt_name:t scope_catalog:t scope_schema:t scope_name:t "
        "maximum_cardinality:i dtd_identifier:t is_self_referencing:t=NO is_identity:t=NO "
        "identity_generation:t identity_start:t identity_increment:t identity_maximum:t "
        "identity_minimum:t identity_cycle:t=NO is_generated:t=NEVER generation_expression:t "
        "is_updatable:t=YES"
    ),
    "information_schema.constraint_column_usage": (
        "table_catalog:t table_schema:t=public table_name:t column_name:t constraint_catalog:t "
        "constraint_schema:t=public constraint_name:t"
    ),
    "information_schema.constraint_table_usage": (
        "table_catalog:t table_schema:t=public table_name:t constraint_catalog:t "
        "constraint_schema:t=public constraint_name:t"
    ),
    "information_schema.enabled_roles": "role_name:t",
    "information_schema.information_schema_catalog_name": "catalog_name:t",
    "information_schema.key_column_usage": (
        "constraint_catalog:t constraint_schema:t=public constraint_name:t table_catalog:t "
        "table_schema:t=public table_name:t column_name:t ordinal_position:i "
        "position_in_unique_constraint:i"
    ),
    "information_schema.parameters": (
        "specific_catalog:t specific_schema:t specific_name:t ordinal_position:i parameter_mode:t "
        "is_result:t as_locator:t parameter_name:t data_type:t character_maximum_length:i "
        "character_octet_length:i character_set_catalog:t character_set_schema:t "
        "character_set_name:t collation_catalog:t collation_schema:t collation_name:t "
        "numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i "
        "interval_type:t interval_precision:i udt_catalog:t udt_schema:t udt_name:t "
        "scope_catalog:t scope_schema:t scope_name:t maximum_cardinality:i dtd_identifier:t "
        "parameter_default:t"
    ),
    "information_schema.referential_constraints": (
        "constraint_catalog:t constraint_schema:t constraint_name:t unique_constraint_catalog:t "
        "unique_constraint_schema:t unique_constraint_name:t match_option:t update_rule:t "
        "delete_rule:t"
    ),
    "information_schema.routines": (
        "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t "
        "routine_name:t routine_type:t module_catalog:t module_schema:t module_name:t "
        "udt_catalog:t udt_schema:t udt_name:t data_type:t character_maximum_length:i "
        "character_octet_length:i character_set_catalog:t character_set_schema:t "
        "character_set_name:t collation_catalog:t collation_schema:t collation_name:t "
        "numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i "
        "interval_type:t interval_precision:i type_udt_catalog:t type_udt_schema:t type_udt_name:t "
        "scope_catalog:t scope_schema:t scope_name:t maximum_cardinality:i dtd_identifier:t "
        "routine_body:t routine_definition:t external_name:t external_language:t parameter_style:t "
        "is_deterministic:t sql_data_access:t is_null_call:t sql_path:t schema_level_routine:t "
        "max_dynamic_result_sets:i is_user_defined_cast:t is_implicitly_invocable:t "
        "security_type:t to_sql_specific_catalog:t to_sql_specific_schema:t to_sql_specific_name:t "
        "as_locator:t created:z last_altered:z new_savepoint_level:t is_udt_dependent:t "
        "result_cast_from_data_type:t result_cast_as_locator:t result_cast_char_max_length:i "
        "result_cast_char_octet_length:i result_cast_char_set_catalog:t "
        "result_cast_char_set_schema:t result_cast_char_set_name:t result_cast_collation_catalog:t "
        "result_cast_collation_schema:t result_cast_collation_name:t "
        "result_cast_numeric_precision:i result_cast_numeric_precision_radix:i "
        "result_cast_numeric_scale:i result_cast_datetime_precision:i result_cast_interval_type:t "
        "result_cast_interval_precision:i result_cast_type_udt_catalog:t "
        "result_cast_type_udt_schema:t result_cast_type_udt_name:t result_cast_scope_catalog:t "
        "result_cast_scope_schema:t result_cast_scope_name:t result_cast_maximum_cardinality:i "
        "result_cast_dtd_identifier:t"
    ),
    "information_schema.role_table_grants": (
        "grantor:t grantee:t table_catalog:t table_schema:t=public table_name:t privilege_type:t "
        "is_grantable:t=NO with_hierarchy:t"
    ),
    "information_schema.schemata": (
        "catalog_name:t schema_name:t schema_owner:t default_character_set_catalog:t "
        "default_character_set_schema:t default_character_set_name:t sql_path:t"
    ),
    "information_schema.sequences": (
        "sequence_catalog:t sequence_schema:t sequence_name:t data_type:t numeric_precision:i "
        "numeric_precision_radix:i numeric_scale:i start_value:t minimum_value:t maximum_value:t "
        "increment:t cycle_option:t"
    ),
    "information_schema.table_constraints": (
        "constraint_catalog:t constraint_schema:t=public constraint_name:t table_catalog:t "
        "table_schema:t=public table_name:t constraint_type:t is_deferrable:t=NO "
        "initially_deferred:t=NO enforced:t=YES nulls_distinct:t=YES"
    ),
    "information_schema.table_privileges": (
        "grantor:t grantee:t table_catalog:t table_schema:t=public table_name:t privilege_type:t "
        "is_grantable:t=NO with_hierarchy:t"
    ),
    "information_schema.tables": (
        "table_catalog:t table_schema:t=public table_name:t table_type:t=BASE\u00a0TABLE "
        "self_referencing_column_name:t reference_generation:t user_defined_type_catalog:t "
        "user_defined_type_schema:t user_defined_type_name:t is_insertable_into:t=YES "
        "is_typed:t=NO commit_action:t"
    ),
    "information_schema.triggers": (
        "trigger_catalog:t trigger_schema:t trigger_name:t event_manipulation:t "
        "event_object_catalog:t event_object_schema:t event_object_table:t action_order:i "
        "action_condition:t action_statement:t action_orientation:t action_timing:t "
        "action_reference_old_table:t action_reference_new_table:t action_reference_old_row:t "
        "action_reference_new_row:t created:z"
    ),
    "information_schema.views": (
        "table_catalog:t table_schema:t table_name:t view_definition:t check_option:t "
        "is_updatable:t is_insertable_into:t is_trigger_updatable:t is_trigger_deletable:t "
        "is_trigger_insertable_into:t"
    ),
}


def arrow_of(kind: str) -> pa.DataType:
    """The Arrow type of a letter."""
    return _KINDS[kind]


def _default(kind: str, text: str | None) -> Any:
    if text is None:
        return None
    if kind in "oil":
        return int(text)
    if kind == "f":
        return float(text)
    return text == "t" if kind == "b" else text.replace("\u00a0", " ")


def _columns(spelled: str) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for one in filter(None, spelled.split(" ")):
        name, _, rest = one.partition(":")
        kind, equals, default = rest.partition("=")
        found[name] = kind, _default(kind, default if equals else None)
    return found


COLUMNS = {name: _columns(spelled) for name, spelled in {**ABSENT, **_SPELLED}.items()}
"""The columns of each catalog, in order, each with its letter and its default."""
