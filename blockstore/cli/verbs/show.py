"""``blockstore show``: the columns of a table, or everything about one block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import pyarrow as pa
from cyclopts import Parameter

from blockstore.cli.blocks import Shown, cells, examine
from blockstore.cli.definitions import definition_json, described
from blockstore.cli.failure import Usage
from blockstore.cli.options import Json
from blockstore.cli.output import (
    Cell,
    Column,
    count,
    counted,
    iso,
    say,
    show_json,
    show_table,
    size,
)
from blockstore.cli.provenance import Provenance, provenance, rows_by_source
from blockstore.cli.rules import rules_text
from blockstore.cli.schema_text import type_name
from blockstore.errors import Invalid, NotFound
from blockstore.format.block import ChunkFile, StatValue
from blockstore.format.column import rules_of
from blockstore.names import is_ulid
from blockstore.table import open_any

Flag: TypeAlias = Annotated[bool, Parameter(negative="")]

_WIDEST_VALUE = len("2013-01-01 00:00:00+00:00")
"""A number or a time is not broken over lines."""
_COLUMNS = (
    Column("name", "COLUMN"),
    Column("type", "TYPE"),
    Column("rules", "RULES", fold=True),
    Column("description", "DESCRIPTION", fold=True),
)
_FILES = (
    Column("path", "FILE"),
    Column("rows", "ROWS", right=True),
    Column("size", "SIZE", right=True),
    Column("sha256", "SHA-256"),
)
_STATISTICS = (
    Column("path", "FILE"),
    Column("column", "COLUMN"),
    Column("min", "MIN", fold=True, least=_WIDEST_VALUE),
    Column("max", "MAX", fold=True, least=_WIDEST_VALUE),
    Column("nulls", "NULLS", right=True),
)


def show(url: str, ulid: str | None = None, /, *, rows: Flag = False, json: Json = False) -> None:
    """Show the columns of a table with their rules, or everything about one block: its state,
    marks, versions, files and statistics.

    Parameters
    ----------
    url
        The table.
    ulid
        The block. Without it, the table's columns are shown.
    rows
        Count the rows of each source. For a merged block this reads a column of every file.
    json
        Print JSON, with the statistics of every file.
    """
    if ulid is None:
        _show_columns(url, rows=rows, json=json)
        return
    if not is_ulid(ulid.upper()):
        raise Invalid(
            f"{ulid!r} is not a block name, expected a ULID such as 01JD0000000000000000000000"
        )
    table = open_any(url)
    block = next((block for block in examine(table) if block.ulid == ulid.upper()), None)
    if block is None:
        raise NotFound(
            f"there is no block {ulid.upper()} in {table.url}: list them with blockstore inspect"
        )
    known = provenance(table, block)
    by_source = rows_by_source(table, block.meta) if rows and block.meta is not None else None
    if json:
        value = {**block.json(), **known.json(), "files": [_file(file) for file in _files(block)]}
        show_json(value if by_source is None else {**value, "rows_by_source": by_source})
    else:
        _show(block, known, by_source, table.definition.schema)


def _show_columns(url: str, *, rows: bool, json: bool) -> None:
    if rows:
        raise Usage("--rows counts the rows of a block: name one")
    table = open_any(url)
    definition = table.definition
    version = table.log.state.version if table.indexed else None
    if json:
        show_json({"url": table.url, "version": version, **definition_json(definition)})
        return
    say(f"table    {table.url}: {described(definition)}")
    say("")
    show_table(
        _COLUMNS,
        [
            {
                "name": field.name,
                "type": rules_of(field).type or type_name(field.type),
                "rules": rules_text(field),
                "description": rules_of(field).description or "",
            }
            for field in definition.schema
        ],
    )


def _files(block: Shown) -> tuple[ChunkFile, ...]:
    return () if block.meta is None else block.meta.files


def _file(file: ChunkFile) -> dict[str, Cell]:
    columns: dict[str, Cell] = {
        name: {"min": found.min, "max": found.max, "nulls": found.nulls}
        for name, found in file.columns.items()
    }
    return {
        "path": file.path,
        "rows": file.rows,
        "bytes": file.bytes,
        "sha256": file.sha256,
        "columns": columns,
    }


def _show(
    block: Shown, known: Provenance, by_source: Mapping[str, int] | None, schema: pa.Schema
) -> None:
    shown = cells(block)
    say(f"block    {block.ulid}")
    say(f"state    {block.state}: {block.reason}")
    if block.version is not None:
        say(f"version  {block.version}, rows from id {block.first_row_id}")
    _show_provenance(known)
    meta = block.meta
    if meta is None:
        say(f"size     {size(block.bytes)} in {counted(block.objects or 0, 'object')}")
        return
    say(f"time     {iso(meta.min_time)} … {iso(meta.max_time)}")
    say(f"rows     {count(meta.rows)}, {size(meta.bytes)} in {counted(len(meta.chunks), 'chunk')}")
    say(
        f"level    {meta.level}, revision {meta.revision}, visible by {meta.visible_by}, schema "
        f"{meta.schema_id}"
    )
    for title, text in (
        ("labels", shown["labels"]),
        ("job", shown["job"]),
        ("producer", meta.producer),
    ):
        if text:
            say(f"{title:<8} {text}")
    if by_source is None:
        say(f"sources  {', '.join(meta.sources[:20])}{' …' if len(meta.sources) > 20 else ''}")
    else:
        for source, found in by_source.items():
            say(f"source   {source}: {counted(found, 'row')}")
    if meta.parents:
        say(f"parents  {', '.join(parent.ulid for parent in meta.parents)}")
    if block.excepted:
        say(f"hidden   the rows of {', '.join(block.excepted)}")
    say("")
    show_table(_FILES, [_file_cells(file) for file in meta.files])
    say("")
    show_table(_STATISTICS, [row for file in meta.files for row in _statistics(file, schema)])


def _show_provenance(known: Provenance) -> None:
    if known.committed is not None:
        entry = known.committed
        message = f": {entry.message}" if entry.message else ""
        say(f"commit   {entry.operation}, {iso(entry.time // 1000 * 1000)}, by {entry.by}{message}")
    if known.named_by is not None:
        say(f"named by {known.named_by}")
    if known.mark is not None:
        mark = known.mark
        details = f": {mark.details}" if mark.details else ""
        by = f", superseded by {mark.superseded_by}" if mark.superseded_by else ""
        say(
            f"mark     for deletion, {mark.reason}, {iso(mark.deletion_time_s * 1000)}{details}{by}"
        )
    if known.no_compact:
        say("mark     no-compact: merges do not take it")
    for problem in known.mark_problems:
        say(f"mark     {problem}")
    if known.debris:
        say(
            f"debris   {counted(len(known.debris), 'object')} of failed attempts, "
            f"{known.debris[0]} is one"
        )


def _file_cells(file: ChunkFile) -> dict[str, str]:
    return {
        "path": file.path,
        "rows": count(file.rows),
        "size": size(file.bytes),
        "sha256": file.sha256,
    }


def _statistics(file: ChunkFile, schema: pa.Schema) -> list[dict[str, str]]:
    return [
        {
            "path": file.path,
            "column": name,
            "min": _bound(found.min, schema, name),
            "max": _bound(found.max, schema, name),
            "nulls": count(found.nulls),
        }
        for name, found in file.columns.items()
    ]


def _bound(value: StatValue | None, schema: pa.Schema, name: str) -> str:
    """Return a bound as text; times are stored as integers in the column's unit."""
    if value is None:
        return ""
    kind = schema.field(name).type if name in schema.names else pa.null()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return str(
            pa.scalar(value, pa.int64())
            .cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
            .cast(kind)
        )
    return str(value)
