"""A plan as a view: the SQL by which DuckDB reads a table's chunks.

Rules:
- DuckDB gets lists of files, one ``read_parquet`` for the chunks that are treated alike, joined by UNION ALL; never an
  Arrow dataset, which it reads two times slower.
- Every column has the table's type: null where a chunk is older than the column, cast where it is narrower. Labels
  are constants. Rows of sources that do not count are left out by the chunk's own ``_source``.
- Paths are taken as they are: nothing in them is a pattern or a partition. Many of them are handed over as a value, since DuckDB
  takes ten times as long to parse them.
- Hidden columns stand in the view only if the query names them.
- DuckDB takes Parquet's bounds, in which NaN never stands, for those of all values, unless it is told of NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.scan.chunk import HIDDEN, ScanChunk
from blockstore.scan.nans import may_hold_nan
from blockstore.scan.plan import ScanPlan
from reader.query.task import Step
from reader.query.types import quoted, sql_type, text
from reader.query.windows import FILE_ROW, window_over

__all__ = ["guard", "view"]

_FACTS = "blockstore_facts"
_FILE = "blockstore_file"
_FEW_PATHS = 64


@dataclass(frozen=True, slots=True)
class _Part:
    """Chunks read by one ``read_parquet``."""

    chunks: Sequence[ScanChunk]
    hidden: frozenset[str]
    """Hidden columns that the files themselves carry."""
    window: range | None = None
    """The rows, by their numbers in each file, that will do; None: all."""


def view(
    name: str,
    plan: ScanPlan,
    paths: Mapping[str, str],
    hidden: Iterable[str],
    windows: Mapping[str, range],
) -> list[Step]:
    """What makes a view of the table ``name``: its planned chunks, by their paths, under its columns; of chunks in ``windows``,
    by their keys, no more than these rows are needed."""
    asked = [column for column in HIDDEN.names if column in set(hidden)]
    lists = _Lists(name)
    selects = [_select(part, plan, paths, asked, lists) for part in _parts(plan, paths, asked, windows)]
    body = "\nUNION ALL ".join(selects) if selects else _nothing(plan, asked)
    return [*lists.steps, (f"CREATE TEMP VIEW {quoted(name)} AS {body}", ())]


def guard(name: str) -> Step:
    """What makes a view of the name of a WITH: where DuckDB does not see the WITH, it finds this, which fails, and seeks no
    file of that name."""
    failing = f"SELECT error({text(f'there is no table {name}')}) AS nothing"
    return f"CREATE TEMP VIEW {quoted(name)} AS {failing}", ()


class _Lists:
    """Lists of paths as SQL: short ones as literals, long ones as variables of the connection, which ``steps`` set."""

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


def _parts(
    plan: ScanPlan, paths: Mapping[str, str], asked: Sequence[str], windows: Mapping[str, range]
) -> Iterator[_Part]:
    """The plan's groups; where hidden columns are asked for, split by which of them the files carry."""
    for group in plan.groups():
        split: dict[frozenset[str], list[ScanChunk]] = {}
        for chunk in group.chunks:
            split.setdefault(_carried(chunk, paths, asked), []).append(chunk)
        for carried, chunks in split.items():
            yield _Part(chunks, carried, window_over(chunks, windows))


def _carried(chunk: ScanChunk, paths: Mapping[str, str], asked: Sequence[str]) -> frozenset[str]:
    """The hidden columns, of those asked for, that a chunk's file holds: a merge's, which may have all of them."""
    if chunk.source is not None or not asked:
        return frozenset()
    if list(asked) == ["_source"]:
        return frozenset(asked)
    return frozenset(asked) & frozenset(pq.read_schema(paths[chunk.key]).names)


def _select(
    part: _Part, plan: ScanPlan, paths: Mapping[str, str], asked: Sequence[str], lists: _Lists
) -> str:
    facts = [column for column in asked if column not in part.hidden]
    columns = [*_columns(part, plan), *(_hidden(column, part) for column in asked)]
    files = lists.sql([paths[chunk.key] for chunk in part.chunks])
    options = "hive_partitioning = false, union_by_name = false"
    stored = plan.schemas[part.chunks[0].schema_id]
    if any(may_hold_nan(part.chunks, field) for field in stored):
        options += ", can_have_nan = true"
    if facts:
        options += f", filename = {text(_FILE)}"
    if facts or part.window is not None:
        options += f", {FILE_ROW} = true"
    source = f"read_parquet({files}, {options})"
    if facts:
        source += f" AS chunk JOIN {_facts(part, paths)} ON chunk.{_FILE} = {_FACTS}.path"
    return f"SELECT {', '.join(columns)} FROM {source}{_filter(part)}"


def _columns(part: _Part, plan: ScanPlan) -> Iterator[str]:
    first = part.chunks[0]
    reads = plan.reads(first.schema_id)
    for field in plan.columns.table:
        read = reads[field.name]
        if read.stored_as is None:
            value = f"CAST(NULL AS {sql_type(field.type)})"
        elif read.widened:
            value = f"CAST({quoted(read.stored_as)} AS {sql_type(field.type)})"
        else:
            value = quoted(read.stored_as)
        yield f"{value} AS {quoted(field.name)}"
    for label in plan.columns.labels:
        constant = first.labels.get(label)
        yield f"CAST({'NULL' if constant is None else text(constant)} AS VARCHAR) AS {quoted(label)}"


def _hidden(column: str, part: _Part) -> str:
    if column in part.hidden:
        return f"CAST({quoted(column)} AS {sql_type(HIDDEN.field(column).type)}) AS {quoted(column)}"
    if column == "_row_id":
        return f"{_FACTS}.first_row_id + chunk.{FILE_ROW} AS {quoted(column)}"
    return f"{_FACTS}.{column.lstrip('_')} AS {quoted(column)}"


def _facts(part: _Part, paths: Mapping[str, str]) -> str:
    """What the index says of each file, as rows to join with."""
    rows = ", ".join(
        f"({text(paths[chunk.key])}, {_text(chunk.source)}, {_number(chunk.version)}, {_number(chunk.first_row_id)})"
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
        tests.append(f"{FILE_ROW} BETWEEN {part.window.start} AND {part.window.stop - 1}")
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _in(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(text(value) for value in sorted(values))
    return f"(CAST({quoted(column)} AS VARCHAR) IN ({listed}))" if listed else "false"


def _nothing(plan: ScanPlan, asked: Sequence[str]) -> str:
    """No rows, under the table's columns and types."""
    visible = plan.columns.visible
    fields: list[pa.Field] = [*visible, *(HIDDEN.field(column) for column in asked)]
    columns = ", ".join(f"CAST(NULL AS {sql_type(field.type)}) AS {quoted(field.name)}" for field in fields)
    return f"SELECT {columns} WHERE false"


def _text(value: str | None) -> str:
    return "CAST(NULL AS VARCHAR)" if value is None else text(value)


def _number(value: int | None) -> str:
    return "CAST(NULL AS BIGINT)" if value is None else f"CAST({value} AS BIGINT)"
