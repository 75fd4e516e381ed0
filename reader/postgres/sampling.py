"""What is known of a query's parameters before their values: their types, and values to describe
it with."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from blockstore.reader.doors.seen import seen_of
from blockstore.reader.errors import UnknownTable
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.postgres import types as t
from blockstore.reader.postgres.catalog_columns import COLUMNS, PREFIX, arrow_of
from blockstore.reader.postgres.inference import parameter_types
from blockstore.reader.postgres.states import SYNTAX, Refused
from blockstore.reader.query.sql.statement import walk

_SAMPLES: Mapping[int, object] = {
    t.BOOL: True,
    t.INT2: 1,
    t.INT4: 1,
    t.INT8: 1,
    t.OID: 1,
    t.FLOAT4: 1.0,
    t.FLOAT8: 1.0,
    t.NUMERIC: Decimal(1),
    t.DATE: dt.date(2000, 1, 1),
    t.TIME: dt.time(),
    t.TIMESTAMP: dt.datetime(2000, 1, 1),
    t.TIMESTAMPTZ: dt.datetime(2000, 1, 1, tzinfo=dt.UTC),
    t.INTERVAL: dt.timedelta(days=1),
    t.BYTEA: b"",
}
"""A value of a type. A text has none: it may stand for any type, and only null fits all."""

_DIGITS, _MOST = 18, 65_535  # a message counts parameters in two bytes


def types_of(gateway: Gateway, caller: Caller, sql: str, given: Sequence[int]) -> tuple[int, ...]:
    """The types of the parameters of a query: those that the client gave, and what the tree shows
    of the others. Raises Refused for parameters that are not numbered from 1."""
    answer = json.loads(gateway.engine.syntax(sql))
    statements = answer.get("statements") or [{"node": {}}]
    root = statements[0]["node"]
    found = parameter_types(root, columns_of_tables(gateway, caller, _tables(root)))
    return merged(found, given)


def merged(found: Mapping[str, int], given: Sequence[int]) -> tuple[int, ...]:
    """The types by their numbers. Raises Refused for parameters that have names."""
    odd = next((name for name in found if not (name.isascii() and name.isdigit())), None)
    if odd is not None:
        raise Refused(SYNTAX, f"the parameter ${odd} has a name: write $1, $2, …")
    far = next((name for name in found if len(name) > _DIGITS or int(name) > _MOST), None)
    if far is not None:
        raise Refused(SYNTAX, f"the parameter ${far[:20]} is too high: write $1 to ${_MOST}")
    count = max([len(given), *(int(name) for name in found)])
    known = [*given, *[0] * (count - len(given))]
    return tuple(
        _usable(oid) or found.get(str(place), t.TEXT) for place, oid in enumerate(known, start=1)
    )


def _usable(oid: int) -> int:
    return 0 if oid == t.UNKNOWN else oid


def samples(types: Sequence[int]) -> list[object]:
    """Values with which a query has the columns that it will have."""
    return [_sample(oid) for oid in types]


def _sample(oid: int) -> object:
    if oid in t.ELEMENTS:
        return [_SAMPLES.get(t.ELEMENTS[oid], "")]
    return _SAMPLES.get(oid)


def columns_of_tables(gateway: Gateway, caller: Caller, tables: Sequence[str]) -> Mapping[str, int]:
    """The types of the columns of some tables, by their names in lower case; of a name that has
    several, none."""
    found: dict[str, int] = {}
    for table in tables:
        for name, oid in _columns(gateway, caller, table):
            found[name] = oid if found.get(name, oid) == oid else 0
    return {name: oid for name, oid in found.items() if oid}


def _columns(gateway: Gateway, caller: Caller, table: str) -> list[tuple[str, int]]:
    own = table.removeprefix(PREFIX)
    if own != table and own in COLUMNS:
        return [(name, t.oid_of(arrow_of(kind))) for name, (kind, _) in COLUMNS[own].items()]
    try:
        schema = seen_of(gateway, caller, table).columns
    except UnknownTable:
        return []
    return [(field.name.lower(), t.type_of(field.type)) for field in schema]


def _tables(root: Mapping[str, object]) -> list[str]:
    nodes = (node for node in walk(root) if node.get("type") == "BASE_TABLE")
    return sorted({str(node["table_name"]) for node in nodes})
