"""The rows of PostgreSQL's catalogs, made of the tables that a caller may know.

Rules:
- A caller's catalog has its own tables and nothing else: no other table, no role, no file.
- An object has the same number (OID) in each session and on each gateway: it is derived from its
  name.
- A catalog of something that Blockstore does not have (triggers, sequences, …) is empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from blockstore.errors import BlockstoreError
from blockstore.format.column import rules_of
from blockstore.reader.audit.statement import shown_text
from blockstore.reader.doors.seen import names_seen, seen_of
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.postgres import types as t
from blockstore.reader.postgres.backends import Backend
from blockstore.reader.postgres.catalog_columns import COLUMNS, arrow_of
from blockstore.reader.postgres.catalog_constant import BTREE, CONSTANT
from blockstore.reader.postgres.catalog_functions import (
    NUMBERED,
    OF_ARRAYS,
    OF_RECORDS,
    functions_of,
)
from blockstore.reader.postgres.variables import SERVER_VERSION, Variables

Row: TypeAlias = dict[str, Any]

PUBLIC, PG_CATALOG, INFORMATION_SCHEMA = 2200, 11, 13_000
OWNER, DATABASE = 10, 5
_FIRST_OID = 16_384
READS = ("SELECT",)
_CHANGES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A table as catalogs show it."""

    name: str
    oid: int
    columns: pa.Schema
    key: tuple[str, ...]
    """The columns of its key; empty without one."""
    needed: frozenset[str]
    """The columns that are never null."""
    restricted: bool
    """Whether a policy restricts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What catalogs are made of."""

    caller: Caller
    tables: tuple[Held, ...]
    database: str
    user: str
    variables: Variables
    process: int
    """The number of the session."""
    sessions: tuple[Backend, ...]
    """The sessions that the caller reaches."""


def known(
    gateway: Gateway,
    caller: Caller,
    database: str,
    user: str,
    variables: Variables,
    *,
    process: int,
    sessions: tuple[Backend, ...],
) -> Known:
    """What the caller may know. A table that cannot be read now is left out."""
    held: list[Held] = []
    for name in names_seen(gateway, caller):
        try:
            seen = seen_of(gateway, caller, name)
        except BlockstoreError:
            continue
        held.append(
            Held(
                name=name,
                oid=oid_of("table", name),
                columns=seen.columns,
                key=seen.key,
                needed=seen.needed,
                restricted=seen.restricted,
            )
        )
    return Known(
        caller=caller,
        tables=tuple(held),
        database=database,
        user=user,
        variables=variables,
        process=process,
        sessions=sessions,
    )


def table_rights(what: Known, table: Held | None = None) -> tuple[str, ...]:
    """What the caller may do with a table, as PostgreSQL calls it; without one, with a table that
    no policy restricts."""
    if not what.caller.may(Scope.READ):
        return ()
    changes = what.caller.may(Scope.WRITE) and not (table is not None and table.restricted)
    return (*READS, *_CHANGES) if changes else READS


def oid_of(kind: str, name: str) -> int:
    """The number of an object."""
    digest = hashlib.sha256(f"{kind}\n{name}".encode("utf-8", "surrogatepass")).digest()
    return _FIRST_OID + int.from_bytes(digest[:4], "big") % (2**31 - _FIRST_OID)


def rows_of(name: str, what: Known) -> pa.Table:
    """The rows of a catalog, ``pg_class`` or ``information_schema.tables``."""
    columns = COLUMNS[name]
    made = list(_ROWS[name](what)) if name in _ROWS else CONSTANT.get(name, ())
    arrays = [
        pa.array([row.get(column, default) for row in made], arrow_of(kind))
        for column, (kind, default) in columns.items()
    ]
    return pa.table(arrays, names=list(columns))


def _namespaces(_: Known) -> Iterator[Row]:
    for oid, name in (
        (PUBLIC, "public"),
        (PG_CATALOG, "pg_catalog"),
        (INFORMATION_SCHEMA, "information_schema"),
    ):
        yield {"oid": oid, "nspname": name}


def _classes(what: Known) -> Iterator[Row]:
    for table in what.tables:
        columns = len(table.columns)
        own = {"oid": table.oid, "relname": table.name, "reltype": oid_of("type", table.name)}
        yield {**own, "relkind": "r", "relnatts": columns, "relhasindex": bool(table.key)}
        if table.key:
            yield {
                "oid": oid_of("index", table.name),
                "relname": f"{table.name}_pkey",
                "relkind": "i",
                "relam": BTREE,
                "relnatts": len(table.key),
            }


def _attributes(what: Known) -> Iterator[Row]:
    for table in what.tables:
        key = [table.columns.field(name) for name in table.key]
        own = [(table.oid, *one) for one in enumerate(table.columns, start=1)]
        index = [(oid_of("index", table.name), *one) for one in enumerate(key, start=1)]
        for relation, place, column in own + index:
            oid = t.type_of(column.type)
            kind = t.TYPES.get(oid)
            yield {
                "attrelid": relation,
                "attname": column.name,
                "atttypid": oid,
                "attlen": -1 if kind is None else kind.size,
                "attbyval": kind is not None and kind.by_value,
                "attnum": place,
                "attndims": int(kind is None),
                "atttypmod": t.modifier_of(column.type),
                "attnotnull": relation == table.oid and column.name in table.needed,
            }


def _types(what: Known) -> Iterator[Row]:
    for kind in t.TYPES.values():
        yield {
            "oid": kind.oid,
            "typname": kind.name,
            "typlen": kind.size,
            "typbyval": kind.by_value,
            "typtype": "p" if kind.oid == t.UNKNOWN else "b",
            "typcategory": kind.category,
            "typarray": kind.array,
            **functions_of(kind),
        }
        if kind.array:
            yield {
                "oid": kind.array,
                "typname": f"_{kind.name}",
                "typlen": -1,
                "typtype": "b",
                "typcategory": "A",
                "typelem": kind.oid,
                **OF_ARRAYS,
                "typsubscript": "array_subscript_handler",
            }
    for table in what.tables:
        yield {
            "oid": oid_of("type", table.name),
            "typname": table.name,
            "typnamespace": PUBLIC,
            "typlen": -1,
            "typtype": "c",
            "typcategory": "C",
            "typrelid": table.oid,
            **OF_RECORDS,
        }


def _functions(_: Known) -> Iterator[Row]:
    for oid, name in NUMBERED:
        yield {"oid": oid, "proname": name, "pronamespace": PG_CATALOG, "prokind": "f"}


def _indexes(what: Known) -> Iterator[Row]:
    for table in what.tables:
        if table.key:
            yield {
                "indexrelid": oid_of("index", table.name),
                "indrelid": table.oid,
                "indnatts": len(table.key),
                "indnkeyatts": len(table.key),
                "indkey": _places(table),
                "indclass": [0] * len(table.key),
                "indoption": [0] * len(table.key),
                "indcollation": [0] * len(table.key),
            }


def _constraints(what: Known) -> Iterator[Row]:
    for table in what.tables:
        if table.key:
            yield {
                "oid": oid_of("constraint", table.name),
                "conname": f"{table.name}_pkey",
                "conrelid": table.oid,
                "conindid": oid_of("index", table.name),
                "contype": "p",
                "conkey": _places(table),
            }


def _places(table: Held) -> list[int]:
    names = table.columns.names
    return [names.index(column) + 1 for column in table.key]


def _descriptions(what: Known) -> Iterator[Row]:
    for table in what.tables:
        for place, field in enumerate(table.columns, start=1):
            description = rules_of(field).description
            if description:
                yield {"objoid": table.oid, "objsubid": place, "description": description}


def _databases(what: Known) -> Iterator[Row]:
    yield {"oid": DATABASE, "datname": what.database}


def _roles(what: Known) -> Iterator[Row]:
    yield {"oid": OWNER, "rolname": what.user, "usename": what.user, "usesysid": OWNER}


def _settings(what: Known) -> Iterator[Row]:
    for name, value in what.variables.all().items():
        yield {"name": name, "setting": value, "reset_val": value, "boot_val": value}


def definition_of_index(table: Held) -> str:
    """The statement that would make the index of the key."""
    columns = ", ".join(table.key)
    name = f"{table.name}_pkey"
    return f"CREATE UNIQUE INDEX {name} ON public.{table.name} USING btree ({columns})"


def _indexes_listed(what: Known) -> Iterator[Row]:
    for table in what.tables:
        if table.key:
            yield {
                "tablename": table.name,
                "indexname": f"{table.name}_pkey",
                "indexdef": definition_of_index(table),
            }


def _listed(what: Known) -> Iterator[Row]:
    for table in what.tables:
        yield {"tablename": table.name, "tableowner": what.user, "hasindexes": bool(table.key)}


def _blocks(what: Known) -> Iterator[Row]:
    for table in what.tables:
        yield {"relid": table.oid, "relname": table.name}


def _sessions(what: Known) -> Iterator[Row]:
    for one in what.sessions:
        yield {
            "datid": DATABASE,
            "datname": one.database,
            "pid": one.process,
            "usename": one.user,
            "state": "active" if one.active else "idle",
            "query": shown_text(one.doing),
        }


def _schemata(what: Known) -> Iterator[Row]:
    for row in _namespaces(what):
        yield {
            "catalog_name": what.database,
            "schema_name": row["nspname"],
            "schema_owner": what.user,
        }


def _info_tables(what: Known) -> Iterator[Row]:
    for table in what.tables:
        yield {"table_catalog": what.database, "table_name": table.name}


def _info_columns(what: Known) -> Iterator[Row]:
    for table in what.tables:
        for place, column in enumerate(table.columns, start=1):
            oid = t.type_of(column.type)
            kind = t.TYPES.get(oid)
            digits = t.modifier_of(column.type) - 4
            decimal = digits >= 0
            yield {
                "table_catalog": what.database,
                "table_name": table.name,
                "column_name": column.name,
                "ordinal_position": place,
                "is_nullable": "NO" if column.name in table.needed else "YES",
                "data_type": "ARRAY" if kind is None else kind.shown,
                "udt_catalog": what.database,
                "udt_name": f"_{t.TYPES[t.ELEMENTS[oid]].name}" if kind is None else kind.name,
                "numeric_precision": digits >> 16 if decimal else _PRECISIONS.get(oid),
                "numeric_scale": digits & 0xFFFF if decimal else 0 if oid in _PRECISIONS else None,
                "numeric_precision_radix": 10 if decimal else 2 if oid in _PRECISIONS else None,
                "datetime_precision": 6 if oid in _FINE else None,
                "dtd_identifier": str(place),
            }


_PRECISIONS = {t.INT2: 16, t.INT4: 32, t.INT8: 64, t.FLOAT4: 24, t.FLOAT8: 53}
_FINE = frozenset({t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.INTERVAL})


def _key_names(table: Held, what: Known) -> Row:
    return {
        "constraint_catalog": what.database,
        "constraint_name": f"{table.name}_pkey",
        "table_catalog": what.database,
        "table_name": table.name,
    }


def _info_constraints(what: Known) -> Iterator[Row]:
    for table in what.tables:
        if table.key:
            yield {**_key_names(table, what), "constraint_type": "PRIMARY KEY"}


def _info_keys(what: Known) -> Iterator[Row]:
    for table in what.tables:
        for place, column in enumerate(table.key, start=1):
            yield {
                **_key_names(table, what),
                "column_name": column,
                "ordinal_position": place,
            }


def _info_uses(what: Known) -> Iterator[Row]:
    for table in what.tables:
        for column in table.key:
            yield {**_key_names(table, what), "column_name": column}


def _info_used(what: Known) -> Iterator[Row]:
    return (_key_names(table, what) for table in what.tables if table.key)


def _enabled(what: Known) -> Iterator[Row]:
    yield {"role_name": what.user}


def _granted(what: Known) -> Iterator[Row]:
    for table in what.tables:
        for right in table_rights(what, table):
            yield {
                "grantor": what.user,
                "grantee": what.user,
                "table_catalog": what.database,
                "table_name": table.name,
                "privilege_type": right,
                "with_hierarchy": "YES" if right == "SELECT" else "NO",
            }


def _catalog_name(what: Known) -> Iterator[Row]:
    yield {"catalog_name": what.database}


_ROWS: Mapping[str, Callable[[Known], Iterable[Row]]] = {
    "pg_attribute": _attributes,
    "pg_authid": _roles,
    "pg_class": _classes,
    "pg_constraint": _constraints,
    "pg_database": _databases,
    "pg_description": _descriptions,
    "pg_index": _indexes,
    "pg_indexes": _indexes_listed,
    "pg_namespace": _namespaces,
    "pg_proc": _functions,
    "pg_roles": _roles,
    "pg_settings": _settings,
    "pg_stat_activity": _sessions,
    **dict.fromkeys(("pg_statio_all_tables", "pg_statio_user_tables"), _blocks),
    "pg_tables": _listed,
    "pg_type": _types,
    "pg_user": _roles,
    "information_schema.columns": _info_columns,
    "information_schema.constraint_column_usage": _info_uses,
    "information_schema.constraint_table_usage": _info_used,
    "information_schema.enabled_roles": _enabled,
    "information_schema.information_schema_catalog_name": _catalog_name,
    "information_schema.key_column_usage": _info_keys,
    "information_schema.role_table_grants": _granted,
    "information_schema.schemata": _schemata,
    "information_schema.table_constraints": _info_constraints,
    "information_schema.table_privileges": _granted,
    "information_schema.tables": _info_tables,
}

VERSION = f"PostgreSQL {SERVER_VERSION} (Blockstore)"
