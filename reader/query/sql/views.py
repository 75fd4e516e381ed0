"""A plan as a view: the SQL by which DuckDB reads a table's chunks.

Rules:
- DuckDB gets lists of files, one ``read_parquet`` for all chunks that are read the same way, joined
  by UNION ALL; never an Arrow dataset, which it reads at half the speed.
- Every column has the table's type: null where a chunk is older than the column, cast where it is
  narrower. Labels are constants. Rows of sources that do not count are filtered by the chunk's own
  ``_source``, and rows that newer versions hide by their numbers (``shown.py``).
- Paths are literal: no patterns and no partitions in them. A long list is passed as a value, since
  DuckDB takes ten times as long to parse it.
- The view contains hidden columns only if the query names them (``hidden.py``); the plan's chunks
  can provide them.
- No name here can collide with a column's: columns of a file are qualified, added columns have
  reserved names, and a name that DuckDB fixes is not used with a file that has it.
- A column that the query does not name may not be in the files (``reading.py``). The view has its
  name and type, and reading it is an error.
- Parquet's bounds never include NaN. DuckDB takes them for the bounds of all values unless an
  option says that a column may contain NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.format.identity import ROW_ID
from blockstore.reader.query.sql.reading import Named
from blockstore.reader.query.sql.shown import (
    LeftOut,
    beside,
    bits_of,
    has_bits,
    joined_away,
    left_out,
    may_be_beside,
)
from blockstore.reader.query.sql.types import quoted, sql_type, text
from blockstore.reader.query.sql.windows import (
    FILE_ROW,
    numbers_files,
    numbers_rows,
    window_over,
)
from blockstore.reader.query.task import Step
from blockstore.reader.tables.names import folded
from blockstore.scan.chunk import HIDDEN, ScanChunk
from blockstore.scan.nans import may_hold_nan
from blockstore.scan.plan import ScanPlan

if TYPE_CHECKING:
    from blockstore.reader.query.fences import Fence

_CHUNK, _FACTS = "_blockstore_chunk", "_blockstore_facts"
_FILE, _ROW = "_blockstore_file", "_blockstore_row"
_SHOWN, _BITS = "_blockstore_shown", "_blockstore_bits"
_FIRST = "_blockstore_first"
"""The first column of a UNION: DuckDB reads it where a query needs none of them, as ``count(*)``,
and the first one of the table may not be in the files."""
_FEW_PATHS = 64


UNREAD = "blockstore: this column was not expected to be read"
"""The error of a query that reads a column of which nothing was fetched."""

_UNREAD = f"error({text(UNREAD)})"


@dataclass(frozen=True, slots=True)
class Part:
    """Chunks that one ``read_parquet`` reads."""

    chunks: Sequence[ScanChunk]
    window: range | None = None
    """The range of row numbers in each file that suffices; None: all rows."""


def view(
    name: str,
    plan: ScanPlan,
    parts: Iterable[Part],
    paths: Mapping[str, str],
    hidden: Sequence[str],
    named: Named | None = None,
    fence: Fence | None = None,
    *,
    whole: bool = False,
) -> list[Step]:
    """The statements that create a view of a table's planned chunks.

    Args:
        name: The name of the view.
        plan: The chunks and the columns of the table.
        parts: The chunks, as ``parts_of`` returns them.
        paths: The file of each chunk, by its key.
        hidden: The hidden columns that the view has.
        named: The columns that can be read, since the files have only those; None: all.
        fence: What the view shows, if not all of it.
        whole: Whether the query reads all rows of this table and no other one.
    """
    lists = _Lists(name, whole=whole and plan.predicate.everything)
    selects = [_selected(part, plan, paths, hidden, named, lists) for part in parts]
    if len(selects) > 1 and named is not None:
        first = _free(_FIRST, plan.columns.visible)
        united = "\nUNION ALL ".join(f"SELECT 0 AS {first}, {one}" for one in selects)
        body = f"SELECT * EXCLUDE ({first}) FROM ({united})"
    else:
        body = "\nUNION ALL ".join(f"SELECT {one}" for one in selects)
    body = body or _nothing(plan, hidden)
    return [*lists.steps, _created(name, body, fence)]


def view_of_rows(
    name: str,
    plan: ScanPlan,
    paths: Sequence[str],
    rows: pa.Schema,
    hidden: Sequence[str],
    fence: Fence | None = None,
) -> Step:
    """The statement that creates a view of rows that were read before.

    Args:
        name: The name of the view.
        plan: The plan that they are the rows of.
        paths: The files that have them, with columns that are named by their numbers.
        rows: The columns in the files; another one cannot be read.
        hidden: The hidden columns that the view has.
        fence: What the view shows, if not all of it.
    """
    columns = []
    for field in (*plan.columns.visible, *(HIDDEN.field(column) for column in hidden)):
        at = rows.get_field_index(field.name)
        value = _UNREAD if at < 0 else f"{_CHUNK}.{numbered(at)}"
        columns.append(f"CAST({value} AS {sql_type(field.type)}) AS {quoted(field.name)}")
    source = f"read_parquet([{', '.join(map(text, paths))}], hive_partitioning = false)"
    body = f"SELECT {', '.join(columns)} FROM {source} AS {_CHUNK}"
    return _created(name, body, fence)


def _created(name: str, body: str, fence: Fence | None) -> Step:
    if fence is not None:
        from blockstore.reader.query.sql.fenced import fenced

        body = fenced(body, fence.columns.names, fence.rows.node)
    return f"CREATE TEMP VIEW {quoted(name)} AS {body}", ()


def numbered(place: int) -> str:
    """The name of a column in a file of rows that were read before. DuckDB does not distinguish
    columns by the case of their names, so that they have others there."""
    return f"c{place}"


def guard(name: str) -> Step:
    """The statement that creates a view with the name of a WITH: outside the scope of the WITH,
    DuckDB finds this view, which fails, and does not search a file of that name."""
    failing = f"SELECT error({text(f'there is no table {name}')}) AS nothing"
    return f"CREATE TEMP VIEW {quoted(name)} AS {failing}", ()


class _Lists:
    """Lists of paths and of rows as SQL: short ones as literals, long ones as variables or tables
    of the connection, which ``steps`` make."""

    def __init__(self, table: str, *, whole: bool = False) -> None:
        self._table = table
        self.whole = whole
        self.steps: list[Step] = []

    def sql(self, paths: Sequence[str]) -> str:
        if len(paths) <= _FEW_PATHS:
            return f"[{', '.join(map(text, paths))}]"
        # Unique, since no two tables of a query have the same name in SQL.
        variable = f"files {len(self.steps)} of {self._table}"
        self.steps.append((f"SET VARIABLE {quoted(variable)} = $1", [list(paths)]))
        return f"getvariable({text(variable)})"

    def without(self, rows: LeftOut, number: str) -> str:
        """The join that leaves out rows of the files, if there are any."""
        if not any(map(len, rows)):
            return ""
        # Unique: no table has a name with a slash, and no WITH that a query can use.
        name = f"left out/{len(self.steps)}/{self._table}"
        join, given = joined_away(rows, name, _CHUNK, number)
        self.steps += [] if given is None else [given]
        return f" {join}"

    def beside(self, chunk: ScanChunk) -> str:
        """The join with the bits of a file, in the order of its rows."""
        name = f"left out/{len(self.steps)}/{self._table}"
        self.steps.append(beside(chunk, name, _SHOWN))
        return f" POSITIONAL JOIN {quoted(name)} AS {_BITS}"

    def is_shown(self, chunk: ScanChunk, number: str) -> str:
        """The condition of the rows of a file that are not hidden."""
        variable = f"hidden {len(self.steps)} of {self._table}"
        self.steps.append((f"SET VARIABLE {quoted(variable)} = CAST($1 AS BIT)", [bits_of(chunk)]))
        row = f"CAST({_CHUNK}.{number} AS INTEGER)"
        return f"get_bit(getvariable({text(variable)}), {row}) = 0"


def parts_of(plan: ScanPlan, hidden: Sequence[str], windows: Mapping[str, range]) -> Iterator[Part]:
    """The plan's chunks as parts; ``windows`` are the rows of a chunk that suffice, by its key.

    They are the plan's groups; those that need row numbers that DuckDB cannot provide are split by
    file, and so are large ones of which all rows are read and some are hidden."""
    for group in plan.groups():
        schema = plan.schemas[group.schema_id]
        shadowed = group.chunks[0].hidden is not None
        if ((ROW_ID in hidden or shadowed) and not numbers_rows(schema)) or (
            shadowed and not numbers_files(schema)
        ):
            for chunk in group.chunks:
                yield Part([chunk])
        else:
            alone = [not windows and has_bits(chunk) for chunk in group.chunks]
            yield from (Part([chunk]) for chunk in compress(group.chunks, alone))
            rest = [chunk for chunk, apart in zip(group.chunks, alone, strict=True) if not apart]
            yield from _alike(rest, hidden, windows)


def contains(chunk: ScanChunk, column: str) -> bool:
    """Whether the view reads a hidden column out of the chunk's file."""
    return chunk.source is None or (column == ROW_ID and ROW_ID in chunk.carries)


def _alike(
    chunks: Sequence[ScanChunk], hidden: Sequence[str], windows: Mapping[str, range]
) -> Iterator[Part]:
    """The chunks of a group; if the view has hidden columns, chunks whose rows contain some of them
    are separate."""
    split: dict[object, list[ScanChunk]] = {}
    for chunk in chunks:
        contained = [column for column in hidden if contains(chunk, column)]
        split.setdefault((bool(hidden) and chunk.source is None, *contained), []).append(chunk)
    for some in split.values():
        yield Part(some, window_over(some, windows))


def _selected(
    part: Part,
    plan: ScanPlan,
    paths: Mapping[str, str],
    hidden: Sequence[str],
    named: Named | None,
    lists: _Lists,
) -> str:
    """What one part selects: columns, files and conditions."""
    first = part.chunks[0]
    stored = plan.schemas[first.schema_id]
    file = _free(_FILE, stored)
    facts = hidden if first.source is not None else ()
    row = FILE_ROW if numbers_rows(stored) else _free(_ROW, stored)
    columns = [
        *_columns(part, plan, named),
        *(_hidden(first, column, facts, row) for column in hidden),
    ]
    hidden_rows = left_out(part.chunks, part.window)
    options = "hive_partitioning = false, union_by_name = false"
    if any(may_hold_nan(part.chunks, field) for field in stored):
        options += ", can_have_nan = true"
    if facts:
        options += f", filename = {text(file)}"
    by_bits = len(part.chunks) == 1 and part.window is None and has_bits(first)
    zipped = by_bits and lists.whole and not facts and may_be_beside(first)
    by_number = any(map(len, hidden_rows)) and not zipped
    numbered = part.window is not None or ROW_ID in facts or by_number
    if numbered and row == FILE_ROW:
        options += f", {FILE_ROW} = true"
    source = f"read_parquet({lists.sql([paths[chunk.key] for chunk in part.chunks])}, {options})"
    if numbered and row != FILE_ROW:
        # Rows of one file, numbered in its order, which a window without ORDER BY keeps in DuckDB.
        source = f"(SELECT *, row_number() OVER () - 1 AS {row} FROM {source})"
    source += f" AS {_CHUNK}"
    tests = [*_tests(part)]
    if zipped:
        source += lists.beside(first)
        tests.append(f"{_BITS}.{_SHOWN}")
    elif by_bits:
        tests.append(lists.is_shown(first, row))
    else:
        source += lists.without(hidden_rows, row)
    if facts:
        source += f" JOIN {_facts(part, paths)} ON {_CHUNK}.{file} = {_FACTS}.path"
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"{', '.join(columns)} FROM {source}{where}"


def _free(name: str, stored: pa.Schema) -> str:
    """The name, extended if a stored column has it: the name is reserved, but old tables may have
    it in capitals."""
    taken = {folded(column) for column in stored.names}
    while name in taken:
        name += "_"
    return name


def _columns(part: Part, plan: ScanPlan, named: Named | None) -> Iterator[str]:
    first = part.chunks[0]
    reads = plan.reads(first.schema_id)
    for field in plan.columns.table:
        read = reads[field.name]
        if read.stored_as is None:
            value = f"CAST(NULL AS {sql_type(field.type)})"
        elif named is not None and not named.has(field.name):
            value = f"CAST({_UNREAD} AS {sql_type(field.type)})"
        elif read.widened:
            value = f"CAST({_stored(read.stored_as)} AS {sql_type(field.type)})"
        else:
            value = _stored(read.stored_as)
        yield f"{value} AS {quoted(field.name)}"
    for label in plan.columns.labels:
        given = first.labels.get(label)
        constant = "NULL" if given is None else text(given)
        yield f"CAST({constant} AS VARCHAR) AS {quoted(label)}"


def _stored(column: str) -> str:
    """A column of the file."""
    return f"{_CHUNK}.{quoted(column)}"


def _hidden(chunk: ScanChunk, column: str, facts: Sequence[str], row: str) -> str:
    stored = f"CAST({_stored(column)} AS {sql_type(HIDDEN.field(column).type)})"
    if not facts:
        return f"{stored} AS {quoted(column)}"
    if column == ROW_ID:
        given = f"{_FACTS}.first_row_id + {_CHUNK}.{row}"
        # In a file of changes a row without an id is a new one.
        value = f"coalesce({stored}, {given})" if contains(chunk, column) else given
        return f"{value} AS {quoted(column)}"
    return f"{_FACTS}.{column.lstrip('_')} AS {quoted(column)}"


def _facts(part: Part, paths: Mapping[str, str]) -> str:
    """The facts that the index has about each file, as rows to join with."""
    rows = ", ".join(
        f"({text(paths[chunk.key])}, {_text(chunk.source)}, {_number(chunk.version)}, "
        f"{_number(chunk.first_row_id)})"
        for chunk in part.chunks
    )
    return f"(VALUES {rows}) AS {_FACTS}(path, source, version, first_row_id)"


def _tests(part: Part) -> Iterator[str]:
    first = part.chunks[0]
    if first.sources is not None:
        yield _in("_source", first.sources)
    if first.excepted is not None:
        yield f"NOT {_in('_source', first.excepted)}"
    if part.window is not None:
        yield f"{_CHUNK}.{FILE_ROW} BETWEEN {part.window.start} AND {part.window.stop - 1}"


def _in(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(text(value) for value in sorted(values))
    return f"(CAST({_stored(column)} AS VARCHAR) IN ({listed}))" if listed else "false"


def _nothing(plan: ScanPlan, hidden: Sequence[str]) -> str:
    """No rows, under the table's columns and types."""
    visible = plan.columns.visible
    fields: list[pa.Field] = [*visible, *(HIDDEN.field(column) for column in hidden)]
    columns = ", ".join(
        f"CAST(NULL AS {sql_type(field.type)}) AS {quoted(field.name)}" for field in fields
    )
    return f"SELECT {columns} WHERE false"


def _text(value: str | None) -> str:
    return "CAST(NULL AS VARCHAR)" if value is None else text(value)


def _number(value: int | None) -> str:
    return "CAST(NULL AS BIGINT)" if value is None else f"CAST({value} AS BIGINT)"
