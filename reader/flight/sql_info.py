"""What this server is and which types it has, as Flight SQL asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

import pyarrow as pa

_VALUE = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
SQL_INFO = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", _VALUE, nullable=False),
    ]
)

_PLACES: dict[type, int] = {str: 0, bool: 1, int: 2}
"""Of a Python value in the union."""
_BITS = 3


def _facts(read_only: bool) -> dict[int, tuple[int, object]]:
    """The place in the union and the value of each fact, by its number in Flight SQL."""
    plain: dict[int, str | bool | int] = {
        0: "Blockstore",  # the server's name
        1: version("blocklake"),
        2: pa.__version__,  # of Arrow
        3: read_only,
        4: True,  # it takes SQL
        5: False,  # and no Substrait
        9: True,  # a call can be cancelled
        10: not read_only,  # bulk ingestion
        11: False,  # and no transaction of several calls
        500: False,  # CREATE of a catalog, a schema, a table: by HTTP, or by ingest
        501: False,
        502: False,
        504: '"',
        506: True,  # the tables that are listed can be selected
    }
    facts: dict[int, tuple[int, object]] = {
        number: (_PLACES[type(value)], value) for number, value in plain.items()
    }
    facts[8] = (_BITS, 0)  # transactions over several calls: none
    facts[503] = (_BITS, 1)  # names are case-insensitive
    facts[505] = (_BITS, 1)
    facts[507] = (_BITS, 1)  # nulls come last
    return facts


def sql_info(numbers: Iterable[int], read_only: bool) -> pa.Table:
    """The facts with these numbers, or all; one that it does not know is left out."""
    facts = _facts(read_only)
    wanted = [number for number in (list(numbers) or sorted(facts)) if number in facts]
    places = pa.array([facts[number][0] for number in wanted], pa.int8())
    held: list[list[object]] = [[] for _ in range(_VALUE.num_fields)]
    offsets = []
    for number in wanted:
        place, value = facts[number]
        offsets.append(len(held[place]))
        held[place].append(value)
    children = [pa.array(values, _VALUE.field(place).type) for place, values in enumerate(held)]
    values = pa.UnionArray.from_dense(
        places,
        pa.array(offsets, pa.int32()),
        children,
        [_VALUE.field(place).name for place in range(_VALUE.num_fields)],
    )
    return pa.Table.from_arrays([pa.array(wanted, pa.uint32()), values], schema=SQL_INFO)


TYPE_INFO = pa.schema(
    [
        pa.field("type_name", pa.string(), nullable=False),
        pa.field("data_type", pa.int32(), nullable=False),
        pa.field("column_size", pa.int32()),
        pa.field("literal_prefix", pa.string()),
        pa.field("literal_suffix", pa.string()),
        pa.field("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("nullable", pa.int32(), nullable=False),
        pa.field("case_sensitive", pa.bool_(), nullable=False),
        pa.field("searchable", pa.int32(), nullable=False),
        pa.field("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), nullable=False),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.string()),
        pa.field("minimum_scale", pa.int32()),
        pa.field("maximum_scale", pa.int32()),
        pa.field("sql_data_type", pa.int32(), nullable=False),
        pa.field("datetime_subcode", pa.int32()),
        pa.field("num_prec_radix", pa.int32()),
        pa.field("interval_precision", pa.int32()),
    ]
)
_TYPES: tuple[tuple[str, int, int | None, str], ...] = (
    ("BOOLEAN", -7, 1, ""),
    ("TINYINT", -6, 3, "number"),
    ("SMALLINT", 5, 5, "number"),
    ("INTEGER", 4, 10, "number"),
    ("BIGINT", -5, 19, "number"),
    ("REAL", 7, 24, "number"),
    ("DOUBLE", 8, 53, "number"),
    ("DECIMAL", 3, 38, "number"),
    ("VARCHAR", 12, None, "text"),
    ("BLOB", -3, None, "text"),
    ("DATE", 91, 10, "text"),
    ("TIME", 92, 15, "text"),
    ("TIMESTAMP", 93, 26, "text"),
)
"""Name, number in XDBC, size, and how a literal is written."""


def type_info(wanted: int | None) -> pa.Table:
    """The types of columns, or the one with this number in XDBC."""
    rows = [
        {
            "type_name": name,
            "data_type": number,
            "column_size": size,
            "literal_prefix": "'" if written == "text" else None,
            "literal_suffix": "'" if written == "text" else None,
            "create_params": ["precision", "scale"] if name == "DECIMAL" else None,
            "nullable": 1,
            "case_sensitive": name == "VARCHAR",
            "searchable": 3,
            "unsigned_attribute": False if written == "number" else None,
            "fixed_prec_scale": False,
            "auto_increment": None,
            "local_type_name": name,
            "minimum_scale": 0 if name == "DECIMAL" else None,
            "maximum_scale": 38 if name == "DECIMAL" else None,
            "sql_data_type": number,
            "datetime_subcode": None,
            "num_prec_radix": 10 if written == "number" else None,
            "interval_precision": None,
        }
        for name, number, size, written in _TYPES
        if wanted in (None, number)
    ]
    return pa.Table.from_pylist(rows, TYPE_INFO)
