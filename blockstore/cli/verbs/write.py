"""``blockstore write``: append files as one block, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

import pyarrow as pa
from cyclopts import Parameter

from blockstore.cli.failure import Interrupted, Usage
from blockstore.cli.files.forms import Form
from blockstore.cli.files.row_files import RowFiles, name_rows
from blockstore.cli.files.source import FileRows, Source, schema_of, sources
from blockstore.cli.options import Json, Many
from blockstore.cli.output import count, say, show_json, size
from blockstore.cli.progress import progress
from blockstore.cli.row_changes import listing_bad_lines, show_change
from blockstore.cli.values import job_of, pairs
from blockstore.errors import BlockstoreError, Conflict, Invalid, NoSpace, RowConflict
from blockstore.format.block import Job
from blockstore.format.durations import format_duration
from blockstore.format.evolution import evolved_for
from blockstore.operations.append import AppendedBlock
from blockstore.operations.writer import Writer
from blockstore.rows.labelled import labels_of
from blockstore.table import Table, open_any


def write(
    url: str,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    format_: Annotated[Form | None, Parameter(name="--format")] = None,
    null: Annotated[Many, Parameter(negative="")] = (),
    app: str | None = None,
    batch: int | None = None,
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    evolve: Annotated[bool, Parameter(negative="")] = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Append files as one block: all of them or none.

    Files that begin with `_row_id,_version` (on a table with a key with `_version`), as `query
    --row-ids` writes them, also change rows: a row with an id replaces that row, if it still has
    this version; one without is new.

    Parameters
    ----------
    url
        The table.
    files
        Parquet, CSV, TSV, JSON lines or Arrow files, compressed or not; `-` is standard input.
    format_
        The form of the files, if their names do not show it.
    null
        Another spelling of null in CSV and TSV, such as NA. An empty field is always null.
    app
        With --batch: the write happens once, however often the command is repeated.
    batch
        The number of the batch of --app.
    label
        A label of new rows, `name=value`; of a file with versions, also of the rows that keys name.
    evolve
        Add the columns of the files that the table lacks, in the same version. Types of Parquet
        and Arrow files also widen columns; those of text files do not.
    message
        A comment for the history.
    json
        Print the block as JSON.
    """
    if not files:
        raise Usage(
            "no file was given: name Parquet, CSV, TSV, JSON lines or Arrow files, or - for "
            "standard input"
        )
    job = job_of(app, batch)
    table = open_any(url)
    labels = pairs(label, "--label") or None
    with sources(files, format_) as named, listing_bad_lines(json=json):
        total = sum(source.bytes for source in named)
        if name_rows(named, table.definition):
            if evolve:
                raise Usage(
                    "--evolve is for new rows, and a file names rows: alter the table first"
                )
            _put(table, named, null, job, labels, message, json=json)
            return
        with (
            progress(f"writing {table.name}", total, quiet=json) as advance,
            _reporting_early_end(
                table,
                table.writer(job=job, labels=labels, evolve=evolve, message=message),
                job,
            ) as writer,
        ):
            schema = _evolved(table, named) if evolve else table.definition.schema
            rows = FileRows(named, schema, null, advance)
            # A batch that was written before is not read again, which can take as long as it did.
            for batch in rows if writer.block is None else ():
                try:
                    writer.write(batch)
                except Invalid as error:
                    raise rows.placed(error) from error
        block = writer.finish()
    if json:
        show_json(_json(block))
    else:
        say(_summary(table.url, block))


def _evolved(table: Table, named: Sequence[Source]) -> pa.Schema:
    """The columns of the table, and those that the files have besides."""
    definition = table.definition
    for source in named:
        new = [one for one in schema_of(source) if one.name not in definition.schema.names]
        definition = evolved_for(definition, pa.schema(new))
    return definition.schema


def _put(
    table: Table,
    named: Sequence[Source],
    nulls: tuple[str, ...],
    job: Job | None,
    labels: Mapping[str, str] | None,
    message: str,
    *,
    json: bool,
) -> None:
    """Write files that name rows of the table: one version, or nothing."""
    total = sum(source.bytes for source in named)
    with progress(f"writing {table.name}", total, quiet=json) as advance:
        rows = RowFiles(named, table.definition, nulls, advance, labels_of(table.log.state))
        try:
            did = table.put_rows(rows, on_conflict="fail", job=job, labels=labels, message=message)
        except (Invalid, RowConflict) as error:
            raise rows.placed(error) from error
    show_change(did, table.url, json=json)


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
            fate = f"too late: {_summary(url, writer.block)}"
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


def _json(block: AppendedBlock) -> dict[str, object]:
    return {
        "ulid": block.ulid,
        "version": block.version,
        "published": block.published,
        "already": block.already,
        "rows": block.rows,
        "bytes": block.bytes,
        "chunks": block.chunks,
    }


def _summary(url: str, block: AppendedBlock) -> str:
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
