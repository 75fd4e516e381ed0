"""A plan as a view: the SQL by which DuckDB reads a table's chunks.

Rules:
- DuckDB gets lists of files, one ``read_parquet`` for the chunks that are treated alike, joined by
  UNION ALL; never an Arrow dataset, which it reads two times slower.
- Every column has the table's type: null where a chunk is older than the column, cast where it is
  narrower. Labels are constants. Rows of sources that do not count are left out by the chunk's own
  ``_source``.
- Paths are taken as they are: nothing in them is a pattern or a partition. Many of them are handed
  over as a value, since DuckDB takes ten times as long to parse them.
- Hidden columns stand in the view only where the query names them (``hidden.py``); the plan's
  chunks can give them.
- No name here can be a column's: columns of a file are asked for by the name of the file's place,
  what is set beside them has reserved names, and a name that DuckDB fixes is not used over a file
  that has it.
- DuckDB takes Parquet's bounds, in which NaN never stands, for those of all values, unless it is
  told of NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from blockstore.reader.query.sql.types import quoted, sql_type, text
from blockstore.reader.query.sql.windows import FILE_ROW, numbers_rows, window_over
from blockstore.reader.query.task import Step
from blockstore.reader.tables.names import folded
from blockstore.scan.chunk import HIDDEN, ScanChunk
from blockstore.scan.nans import may_hold_nan
from blockstore.scan.plan import ScanPlan

_CHUNK, _FACTS = "_blockstore_chunk", "_blockstore_facts"
_FILE, _ROW = "_blockstore_file", "_blockstore_row"
_FEW_PATHS = 64


@dataclass(frozen=True, slots=True)
class _Part:
    """Chunks read by one ``read_parquet``."""

    chunks: Sequence[ScanChunk]
    window: range | None = None
    """The rows, by their numbers in each file, that will do; None: all."""


def view(
    name: str,
    plan: ScanPlan,
    paths: Mapping[str, str],
    asked: Sequence[str],
    windows: Mapping[str, range],
) -> list[Step]:
    """What makes a view of a table's planned chunks, by their paths, under its columns and the
    hidden ones that are ``asked`` for; of chunks in ``windows``, by their keys, no more than these
    rows are needed."""
    lists = _Lists(name)
    selects = [_select(part, plan, paths, asked, lists) for part in _parts(plan, asked, windows)]
    body = "\nUNION ALL ".join(selects) if selects else _nothing(plan, asked)
    return [*lists.steps, (f"CREATE TEMP VIEW {quoted(name)} AS {body}", ())]


def guard(name: str) -> Step:
    """What makes a view of the name of a WITH: where DuckDB does not see the WITH, it finds this,
    which fails, and seeks no file of that name."""
    failing = f"SELECT error({text(f'there is no table {name}')}) AS nothing"
    return f"CREATE TEMP VIEW {quoted(name)} AS {failing}", ()


class _Lists:
    """Lists of paths as SQL: short ones as literals, long ones as variables of the connection,
    which ``steps`` set."""

    def __init__(self, table: str) -> None:
        self._table = table
        self.steps: list[Step] = []

    def sql(self, paths: Sequence[str]) -> str:
        if len(paths) <= _FEW_PATHS:
            return f"[{', '.join(map(text, paths))}]"
        # No two tables of a query have one name in SQL, so no two variables have.
        variable = f"files {len(self.steps)} of {self._table}"
        self.steps.append((f"SET VARIABLE {quoted(variable)} = $1", [list(paths)]))
        return f"getvariable({text(variable)})"


def _parts(plan: ScanPlan, asked: Sequence[str], windows: Mapping[str, range]) -> Iterator[_Part]:
    """The plan's groups, of which those that need row numbers which DuckDB cannot give are taken
    file by file."""
    for group in plan.groups():
        if "_row_id" in asked and not numbers_rows(plan.schemas[group.schema_id]):
            for chunk in group.chunks:
                yield _Part([chunk])
        else:
            yield from _alike(group.chunks, asked, windows)


def _alike(
    chunks: Sequence[ScanChunk], asked: Sequence[str], windows: Mapping[str, range]
) -> Iterator[_Part]:
    """The chunks of a group; where hidden columns are asked for, those apart whose rows carry their
    source themselves."""
    split: dict[bool, list[ScanChunk]] = {}
    for chunk in chunks:
        split.setdefault(bool(asked) and chunk.source is None, []).append(chunk)
    for some in split.values():
        yield _Part(some, window_over(some, windows))


def _select(
    part: _Part, plan: ScanPlan, paths: Mapping[str, str], asked: Sequence[str], lists: _Lists
) -> str:
    first = part.chunks[0]
    stored = plan.schemas[first.schema_id]
    file = _free(_FILE, stored)
    facts = asked if first.source is not None else ()
    row = FILE_ROW if numbers_rows(stored) else _free(_ROW, stored)
    columns = [*_columns(part, plan), *(_hidden(column, facts, row) for column in asked)]
    options = "hive_partitioning = false, union_by_name = false"
    if any(may_hold_nan(part.chunks, field) for field in stored):
        options += ", can_have_nan = true"
    if facts:
        options += f", filename = {text(file)}"
    numbered = part.window is not None or "_row_id" in facts
    if numbered and row == FILE_ROW:
        options += f", {FILE_ROW} = true"
    source = f"read_parquet({lists.sql([paths[chunk.key] for chunk in part.chunks])}, {options})"
    if numbered and row != FILE_ROW:
        # Rows of one file, numbered in the order in which they stand there: DuckDB keeps that order
        # for a window without one.
        source = f"(SELECT *, row_number() OVER () - 1 AS {row} FROM {source})"
    source += f" AS {_CHUNK}"
    if facts:
        source += f" JOIN {_facts(part, paths)} ON {_CHUNK}.{file} = {_FACTS}.path"
    return f"SELECT {', '.join(columns)} FROM {source}{_filter(part)}"


def _free(name: str, stored: pa.Schema) -> str:
    """The name, longer where a column of the file has it: it is reserved, but older tables may hold
    it in capitals."""
    taken = {folded(column) for column in stored.names}
    while name in taken:
        name += "_"
    return name


def _columns(part: _Part, plan: ScanPlan) -> Iterator[str]:
    first = part.chunks[0]
    reads = plan.reads(first.schema_id)
    for field in plan.columns.table:
        read = reads[field.name]
        if read.stored_as is None:
            value = f"CAST(NULL AS {sql_type(field.type)})"
        elif read.widened:
            value = f"CAST({_stored(read.stored_as)} AS {sql_type(field.type)})"
        else:
            value = _stored(read.stored_as)
        yield f"{value} AS {quoted(field.name)}"
    for label in plan.columns.labels:
        constant = first.labels.get(label)
        yield f"CAST({'NULL' if constant is None else text(constant)} AS VARCHAR) AS {quoted(label)}"


def _stored(column: str) -> str:
    """A column of the file."""
    return f"{_CHUNK}.{quoted(column)}"


def _hidden(column: str, facts: Sequence[str], row: str) -> str:
    if not facts:
        return (
            f"CAST({_stored(column)} AS {sql_type(HIDDEN.field(column).type)}) AS {quoted(column)}"
        )
    if column == "_row_id":
        return f"{_FACTS}.first_row_id + {_CHUNK}.{row} AS {quoted(column)}"
    return f"{_FACTS}.{column.lstrip('_')} AS {quoted(column)}"


def _facts(part: _Part, paths: Mapping[str, str]) -> str:
    """What the index says of each file, as rows to join with."""
    rows = ", ".join(
        f"({text(paths[chunk.key])}, {_text(chunk.source)}, {_number(chunk.version)}, "
        f"{_number(chunk.first_row_id)})"
        for chunk in part.chunks
    )
    return f"(VALUES {rows}) AS {_FACTS}(path, source, version, first_row_id)"


def _filter(part: _Part) -> str:
    first = part.chunks[0]
    tests = []
    if first.sources is not None:
        tests.append(f"{_in('_source', first.sources)}")
    if first.excepted is not None:
        tests.append(f"NOT {_in('_source', first.excepted)}")
    if part.window is not None:
        tests.append(f"{_CHUNK}.{FILE_ROW} BETWEEN {part.window.start} AND {part.window.stop - 1}")
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _in(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(text(value) for value in sorted(values))
    return f"(CAST({_stored(column)} AS VARCHAR) IN ({listed}))" if listed else "false"


def _nothing(plan: ScanPlan, asked: Sequence[str]) -> str:
    """No rows, under the table's columns and types."""
    visible = plan.columns.visible
    fields: list[pa.Field] = [*visible, *(HIDDEN.field(column) for column in asked)]
    columns = ", ".join(
        f"CAST(NULL AS {sql_type(field.type)}) AS {quoted(field.name)}" for field in fields
    )
    return f"SELECT {columns} WHERE false"


def _text(value: str | None) -> str:
    return "CAST(NULL AS VARCHAR)" if value is None else text(value)


def _number(value: int | None) -> str:
    return "CAST(NULL AS BIGINT)" if value is None else f"CAST({value} AS BIGINT)"
