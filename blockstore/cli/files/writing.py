"""Files of this machine, written to a table: one version, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from blockstore.cli.failure import Interrupted
from blockstore.cli.files.row_files import RowFiles, name_rows
from blockstore.cli.files.source import FileRows, Source, schema_of
from blockstore.cli.output import count, size
from blockstore.cli.progress import progress
from blockstore.errors import BlockstoreError, Conflict, Invalid, NoSpace, RowConflict
from blockstore.format.block import Job
from blockstore.format.durations import format_duration
from blockstore.format.evolution import evolved_for
from blockstore.operations.append import AppendedBlock
from blockstore.operations.writer import Writer
from blockstore.rows.labelled import labels_of
from blockstore.rows.results import RowsChanged
from blockstore.table import Table

Change = Callable[[Table, object], RowsChanged]
"""Changes a table by rows."""


def write_files(
    table: Table,
    named: Sequence[Source],
    nulls: tuple[str, ...],
    *,
    job: Job | None,
    labels: Mapping[str, str] | None = None,
    evolve: bool = False,
    message: str = "",
    quiet: bool,
) -> AppendedBlock | RowsChanged:
    """Append the rows of files, or change the rows that they name; return what was done.

    Args:
        table: Where they are written.
        named: The files.
        nulls: Other spellings of null in text.
        job: Makes it happen once.
        labels: The labels of new rows.
        evolve: Whether columns that the table lacks are added; files that name rows have none.
        message: Kept with the version.
        quiet: Whether no progress is shown.

    Raises:
        Invalid: A value, with its line and column.
        Interrupted: By Ctrl-C; it says what became of the rows.
    """
    total = sum(source.bytes for source in named)
    if name_rows(named, table.definition):
        with progress(f"writing {table.name}", total, quiet=quiet) as advance:
            changes = RowFiles(named, table.definition, nulls, advance, labels_of(table.log.state))
            try:
                return table.put_rows(
                    changes, on_conflict="fail", job=job, labels=labels, message=message
                )
            except (Invalid, RowConflict) as error:
                raise changes.placed(error) from error
    with (
        progress(f"writing {table.name}", total, quiet=quiet) as advance,
        _reporting_early_end(
            table,
            table.writer(job=job, labels=labels, evolve=evolve, message=message),
            job,
        ) as writer,
    ):
        schema = _evolved(table, named) if evolve else table.definition.schema
        rows = FileRows(named, schema, nulls, advance)
        # A batch that was written before is not read again, which can take as long as it did.
        for batch in rows if writer.block is None else ():
            try:
                writer.write(batch)
            except Invalid as error:
                raise rows.placed(error) from error
    return writer.finish()


def change_by_files(
    table: Table,
    named: Sequence[Source],
    nulls: tuple[str, ...],
    change: Change,
    *,
    quiet: bool,
) -> RowsChanged:
    """Change a table by the rows of files, which are read again where the change is planned again.
    Raises Invalid for a value, with its line and column, and what the change raises."""
    total = sum(source.bytes for source in named)
    with progress(f"writing {table.name}", total, quiet=quiet) as advance:
        schema, labels = table.definition.schema, labels_of(table.log.state)
        rows = FileRows(named, schema, nulls, advance, labels)
        try:
            return change(table, lambda: iter(rows))
        except Invalid as error:
            raise rows.placed(error) from error


def _evolved(table: Table, named: Sequence[Source]) -> pa.Schema:
    """The columns of the table, and those that the files have besides."""
    definition = table.definition
    for source in named:
        new = [one for one in schema_of(source) if one.name not in definition.schema.names]
        definition = evolved_for(definition, pa.schema(new))
    return definition.schema


@contextmanager
def _reporting_early_end(table: Table, writer: Writer, job: Job | None) -> Iterator[Writer]:
    """Yield the writer, and finish or abort it at the end.

    If the write is interrupted, or refused after rows were uploaded, the error says what became of
    the rows.
    """
    url = table.url
    try:
        with writer:
            yield writer
    except KeyboardInterrupt as interrupt:
        if writer.block is not None:
            fate = f"too late: {summary(url, writer.block)}"
        elif writer.ulid is None:
            fate = f"nothing was written to {url}{_debris(table, writer)}"
        else:
            fate = (
                f"it is not known whether block {writer.ulid} is in {url}: look for it with "
                f"blockstore inspect {url} before you write its rows again"
            )
        raise Interrupted(fate) from interrupt
    except (Conflict, Invalid, NoSpace) as error:
        suffix = _debris(table, writer) if writer.ulid is None else _unpublished(writer.ulid, job)
        error.args = (f"{error}{suffix}", *error.args[1:])
        raise


def _unpublished(ulid: str, job: Job | None) -> str:
    """Return what became of a complete block that was refused, if it is a job's.

    A job's block is visible by its entry only; any other becomes visible by its age.
    """
    if job is None:
        return ""
    return (
        f"; its rows are stored as block {ulid}, which no reader sees: run the same job again, or "
        "leave the block to the compactor"
    )


def _debris(table: Table, writer: Writer) -> str:
    """Return what a write that ended early has uploaded; only the compactor removes it (R4)."""
    try:
        ulid, left = writer.left_behind()
    except BlockstoreError as error:
        return f"; it is not known whether files of it were uploaded ({error})"
    if not left:
        return ""
    delays = table.definition.properties
    return (
        f"; {size(left)} of it were uploaded as block {ulid}, which no reader sees: the compactor, "
        "or blockstore cleanup, marks it for deletion when it is "
        f"{format_duration(delays.partial_delay_s)} old, and removes it "
        f"{format_duration(delays.delete_delay_s)} later"
    )


def summary(url: str, block: AppendedBlock) -> str:
    """What became of appended rows, for people."""
    if block.already:
        return (
            f"nothing written to {url}: this batch was written before, as block "
            f"{block.ulid or 'unknown'}"
        )
    if block.ulid is None:
        return f"nothing written to {url}: the files have no rows"
    seen = (
        f"version {block.version}"
        if block.published
        else "not published yet; readers will discover it by its age"
    )
    rows = f"{count(block.rows)} row{'s' if block.rows != 1 else ''}"
    return f"wrote {rows}, {size(block.bytes)}, to {url} as block {block.ulid}: {seen}"
