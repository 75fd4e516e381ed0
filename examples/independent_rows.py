"""The rows of a block, and which of them are current: the part of the independent reader that
follows "chunks" and "rows that change" in docs/format.md."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from independent_index import Folder, Json, check, opened, sha256
from independent_segments import check_ranges, segments

OWN = ("_rows", "_deleted", "_stream")
"""What a row has besides its columns until it is known whether it is current."""


def chunks(meta: Json) -> list[Json]:
    return [file for file in meta["blockstore"]["files"] if file["path"].startswith("chunks/")]


def rows_of(
    folder: Folder,
    block: Json,
    columns: pa.Schema,
    by_name: bool,
    labels: list[str],
    identity: list[str],
) -> list[Json]:
    """The visible rows of a block. ``by_name``: without an index a column is its name."""
    meta, first, shown = block["meta"], block["first_row_id"], []
    level_1 = meta["compaction"]["level"] == 1
    stored = {name_of(field, by_name): field.name for field in block["schema"]}
    hashes = segments(folder, meta, chunks(meta))
    for file in chunks(meta):
        key = f"{meta['ulid']}/{file['path']}"
        data = folder.get(key, "missing")
        check(
            (len(data), sha256(data)) == (file["bytes"], file["sha256"]), f"{key} has other bytes"
        )
        check_ranges(hashes.get(file["path"]), key, data)
        table = opened(data).read(use_threads=False)
        count = len(table)
        check(count == file["rows"], f"{key} has another number of rows")
        values = {label: [meta["blockstore"]["labels"].get(label)] * count for label in labels}
        for field in columns:
            name = stored.get(name_of(field, by_name))
            values[field.name] = (
                [None] * count if name is None else plain(table.column(name).cast(field.type))
            )
        values["_source"] = block["sources"] * count if level_1 else plain(table.column("_source"))
        check(None not in values["_source"], f"{key} has rows without a source")
        known = level_1 and first is not None
        values["_row_id"] = list(range(first, first + count)) if known else [None] * count
        values["_version"] = [block["version"] if known else None] * count
        if identity:
            values |= carried(meta, table, values)
        first = first + count if known else None
        shown += [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return [row for row in shown if row["_source"] not in block["excepted"]]


def identity_of(table: Json) -> list[str]:
    """The columns that identify a row; none where rows never change."""
    return ["_row_id"] if table.get("row_ids") else table.get("key", [])


def carried(meta: Json, table: pa.Table, implied: Json) -> Json:
    """What chunks of a table whose rows have an identity say of their rows besides the columns."""
    kind, level = meta["blockstore"].get("rows", "plain"), meta["compaction"]["level"]
    count, found = len(table), {}
    ids = plain(table.column("_row_id")) if "_row_id" in table.column_names else [None] * count
    found["_row_id"] = [
        other if one is None else one for one, other in zip(ids, implied["_row_id"], strict=True)
    ]
    if level > 1:
        found["_version"] = plain(table.column("_version"))
    check(None not in (implied | found)["_version"], f"{meta['ulid']} has rows without a version")
    stream = json.dumps(sorted(meta["blockstore"]["labels"].items()))
    deleted = [False] * count if kind == "plain" else plain(table.column("_deleted"))
    return found | {"_rows": [kind] * count, "_deleted": deleted, "_stream": [stream] * count}


def current(rows: list[Json], identity: list[str]) -> list[Json]:
    """The current rows: of each identity that of the highest version, unless it is a tombstone."""
    if not identity:
        return rows
    newest: dict[str, int] = {}
    for row in rows:
        if row["_rows"] == "changes":
            name = named(row, identity)
            newest[name] = max(newest.get(name, 0), row["_version"])
    found = [
        row
        for row in rows
        if row["_rows"] != "history"
        and not row["_deleted"]
        and row["_version"] >= newest.get(named(row, identity), 0)
    ]
    once = {named(row, identity) for row in found}
    check(len(once) == len(found), "a row is current twice")
    return [{name: row[name] for name in row.keys() - {*OWN}} for row in found]


def named(row: Json, identity: list[str]) -> str:
    """What two versions of one row have in common."""
    return json.dumps([row["_stream"], *(row[name] for name in identity)])


def name_of(field: pa.Field, by_name: bool) -> int | str:
    """What identifies a column: its permanent id, or its name."""
    own = (field.metadata or {}).get(b"PARQUET:field_id")
    return field.name if by_name or own is None else int(own)


def plain(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type.value_type if pt.is_dictionary(column.type) else column.type
    if pt.is_temporal(kind):
        column = column.cast(pa.int32() if pt.is_date32(kind) or pt.is_time32(kind) else pa.int64())
    return [plain_value(one) for one in column.to_pylist()]


def plain_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, dict):
        return {name: plain_value(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(one) for one in value]
    return (
        value.hex()
        if isinstance(value, bytes)
        else format(value, "f")
        if isinstance(value, Decimal)
        else value
    )
