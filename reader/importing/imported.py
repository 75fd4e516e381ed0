"""A table of another format, copied into a table of our own.

Rules:
- The table is created, then all rows become visible in one version, or none. An import that was
  stopped is repeated by the same call: nothing is doubled.
- Afterwards the table is read, and its rows are compared with those that were read from the source:
  their number, and the sum of their hashes. So are those that an earlier call has written.
- History is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from blockstore.errors import Conflict, Corrupt, Invalid, NotFound
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.fields import required
from blockstore.format.identity import Key
from blockstore.index.state import State
from blockstore.reader.importing.digest import RowDigest
from blockstore.reader.importing.sources import Source
from blockstore.table import Table
from blockstore.table import create as create_table
from blockstore.table import open as open_table

JOB = Job("import", 0)
"""The one job of an import: a table is imported once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the new table is to be, apart from its columns."""

    time_column: str | None = None
    sort_by: Sequence[str] = ()
    key: Sequence[str] = ()
    row_ids: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A table that holds the rows of another one."""

    url: str
    version: int
    rows: int | None
    """None if an earlier call had imported them."""


def import_rows(source: Source, url: str, wanted: Wanted) -> Imported:
    """Copy the rows of ``source`` into a new table at ``url``.

    Raises:
        Conflict: There is another table, also one that holds another import.
        Invalid: No table can have these columns, or a row breaks a rule.
        Corrupt: The table holds other rows than were read. This is a fault of the program.
    """
    table = _created(source, url, wanted)
    earlier = _version(table)
    if earlier is not None:
        _check_earlier(source, table, earlier)
        return Imported(url=table.url, version=earlier, rows=None)
    columns = _columns(table.definition)
    read = RowDigest()

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal read
        read.close()
        read = RowDigest()  # a change that is tried again reads its rows again
        for batch in source.batches():
            cast = _cast(batch, columns)
            read.add(cast)
            yield cast

    try:
        if isinstance(table.definition.identity, Key):
            table.insert(rows, job=JOB)
        else:
            table.append(rows(), job=JOB)
        table.poll()
        version = _version(table)
        _compare(table, version, columns, read)
        return Imported(url=table.url, version=version or table.log.state.version, rows=read.rows)
    finally:
        read.close()


def _created(source: Source, url: str, wanted: Wanted) -> Table:
    """The table, as an earlier call may have created it."""
    definition = Definition.create(
        source.schema,
        time_column=wanted.time_column,
        sort_by=wanted.sort_by,
        row_ids=wanted.row_ids,
        key=wanted.key,
    )
    try:
        table = open_table(url)
    except NotFound:
        return create_table(
            url,
            schema=source.schema,
            time_column=wanted.time_column,
            sort_by=wanted.sort_by,
            row_ids=wanted.row_ids,
            key=wanted.key,
        )
    is_begun = _never_had_a_row(table.log.state) and _same(table.definition, definition)
    if _version(table) is None and not is_begun:
        raise Conflict(
            f"there is already a table at {url}, and it is not what an import has begun: choose "
            "another URL"
        )
    return table


def _never_had_a_row(state: State) -> bool:
    """Whether nothing was written to the table since its creation; a compactor may have claimed
    it."""
    return not len(state.blocks) and state.next_row_id == state.first_row_id


def _same(one: Definition, other: Definition) -> bool:
    """Whether two definitions say the same, apart from ids."""
    plain = [
        (
            [(field.name, field.type) for field in each.schema],
            required(each.schema),
            each.time_column,
            each.sort_by,
            each.identity,
        )
        for each in (one, other)
    ]
    return plain[0] == plain[1]


def _version(table: Table) -> int | None:
    """The version that holds the imported rows, if there is one."""
    app = table.log.state.batches.get(JOB.app)
    written = None if app is None else app.written(JOB.batch)
    return None if written is None else written.version


def _cast(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    try:
        return batch.select(columns.names).cast(columns)
    except (pa.ArrowException, KeyError) as error:
        raise Invalid(f"the rows do not have the columns of their table: {error}") from error


def _columns(definition: Definition) -> pa.Schema:
    return pa.schema([pa.field(one.name, one.type) for one in definition.schema])


def _check_earlier(source: Source, table: Table, version: int) -> None:
    """Compare the rows of an earlier call with those of the source, perhaps for the first time: the
    call may have been stopped before it could. Raises Conflict."""
    columns, read = _columns(table.snapshot(version=version).snapshot.definition), RowDigest()
    with closing(read):
        try:
            for batch in source.batches():
                read.add(_cast(batch, columns))
            same = set(source.schema.names) == set(columns.names)
        except Invalid:
            same = False
        if not same or read.value != _digest(table, version, columns):
            raise Conflict(
                f"there is already a table at {table.url}, imported in version {version}, and its "
                f"rows are not those of {source.url} now: choose another URL"
            )


def _compare(table: Table, version: int | None, columns: pa.Schema, read: RowDigest) -> None:
    written = _digest(table, version, columns)
    if written != read.value:
        raise Corrupt(
            f"version {version} of {table.url} has {written[0]} rows, and {read.rows} rows were "
            "read: they are not the same rows, so drop the table and report this"
        )


def _digest(table: Table, version: int | None, columns: pa.Schema) -> tuple[int, int]:
    with closing(RowDigest()) as written:
        snapshot = table.snapshot(version=version)
        for batch in snapshot.scan(columns=columns.names).to_reader():
            written.add(_cast(batch, columns))
        return written.value
