"""Changes of given rows: complete rows, some of their cells, or their deletion.

Rules:
- All rows of a request are one version, or none is applied.
- A value is exactly one of its column's type, as JSON has it: times are ISO texts, bytes are
  base64, decimals are numbers or texts.
- Null and "left out" are different: a complete row that exists, or may exist, names every column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from typing import Any

import pyarrow as pa

from blockstore.cli.files.json_lines import batch_of, unique_keys
from blockstore.errors import Invalid, NotFound, RowConflict
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, VERSION, Identity, RowIds, stored_columns
from blockstore.format.value_text import plain, plain_rows
from blockstore.reader.jobs.failures import conflict
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed
from blockstore.reader.jobs.writing import BUFFER_BYTES, Writing, access_of, job_of
from blockstore.rows.attempts import Said, identity_of
from blockstore.rows.cells import set_cells
from blockstore.rows.delete import delete_rows
from blockstore.rows.labelled import labels_of
from blockstore.rows.results import RowsChanged
from blockstore.rows.row_set import FAIL, put_rows
from blockstore.table import Table

Row = Mapping[str, Any]
_PARTS = ("rows", "new", "delete")
"""The lists of rows in the body of a request."""


class What(StrEnum):
    """What is done to rows."""

    PUT = "put"
    CELLS = "cells"
    DELETE = "delete"


class RowChanges(Writing):
    """Runs changes of given rows; the input of the job is the body of its request."""

    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        table = self._table(request)
        before = self._done_before(table, request)
        if before is not None:
            return before
        with self._input(job, request, meter) as path:
            body = path.read_bytes()
        meter.check()
        try:
            did = _applied(table, request, parsed(body))
        except RowConflict as error:
            if not error.rows:
                raise
            raise Failed(conflict(error, table.log.state.version)) from error
        except NotFound as error:
            detail = {"version": table.log.state.version}
            failure = Failure(error="not_found", message=str(error), detail=detail)
            raise Failed(failure) from error
        except Invalid as error:
            raise Failed(Failure(error="invalid", message=str(error))) from error
        return self._changed(request, did, table)


def parsed(body: bytes) -> dict[str, Any]:
    """The body of a request. Numbers with a fraction are decimals: no digit is lost. Raises
    Invalid."""
    try:
        found = json.loads(body, parse_float=Decimal, object_pairs_hook=unique_keys)
    except RecursionError:
        raise Invalid("the body is nested too deeply, expected rows") from None
    except (ValueError, ArithmeticError) as error:
        raise Invalid(f"the body is not valid JSON: {error}") from None
    parts = {name: found.get(name) or [] for name in _PARTS} if isinstance(found, dict) else {}
    listed = all(isinstance(part, list) for part in parts.values())
    rows = list(chain(*parts.values())) if listed else []
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise Invalid(
            'the body has no rows, expected {"rows": [{"column": value, …}, …]} with at least one'
        )
    return {**found, **parts}


def named_versions(
    rows: Sequence[Row], definition: Definition
) -> list[tuple[tuple[Any, ...], int]]:
    """Return pairs of what identifies a row and of a version, for rows of a body. Raises Invalid
    for one that names anything else."""
    identity = identity_of(definition, "a fetch of versions")
    names = (*identity.columns, VERSION)
    for place, row in enumerate(rows):
        _check_named(row, place, identity)
        if row.get(VERSION) is None:
            raise Invalid(f"{_place(place)} has no {VERSION!r}, expected the version to fetch")
        _check_only(row, place, names)
    found = plain_rows(_batch(rows, _schema(names, definition)))
    return [(tuple(row[name] for name in identity.columns), row[VERSION]) for row in found]


def _applied(table: Table, request: Request, body: Mapping[str, Any]) -> RowsChanged:
    identity = identity_of(table.definition, "a change of rows")
    access = access_of(table)
    said = Said(
        job=job_of(request),
        labels=body.get("labels"),
        message=request.message,
        buffer_bytes=BUFFER_BYTES,
    )
    rows, labels = _with_labels(body["rows"], table, said)
    match What(request.what):
        case What.PUT:
            on_conflict = str(body.get("on_conflict") or FAIL)
            batch = _complete(rows, table.definition, identity, on_conflict, labels)
            return put_rows(access, batch, said, on_conflict=on_conflict)
        case What.CELLS:
            new, more = _with_labels(body["new"], table, said)
            schema = _schema((*table.definition.schema.names, *more), table.definition)
            gone, known = _with_labels(body["delete"], table, said)
            return set_cells(
                access,
                _cells(rows, table.definition, identity, labels),
                said,
                new=_batch(new, schema) if new else None,
                delete=_cells(gone, table.definition, identity, known),
            )
        case What.DELETE:
            names = (*identity.columns, VERSION, *labels)
            for place, row in enumerate(rows):
                _check_named(row, place, identity)
                _check_only(row, place, names)
            schema = _schema(names, table.definition)
            return delete_rows(access, pa.table(_batch(rows, schema)), said)


def _with_labels(
    rows: Sequence[Row], table: Table, said: Said
) -> tuple[Sequence[Row], Sequence[str]]:
    """Return the rows, and the labels that some of them name: then each names them all."""
    labels = [name for name in labels_of(table.log.state) if any(name in row for row in rows)]
    own = table.definition.labels if said.labels is None else said.labels
    return [{**{name: own.get(name) for name in labels}, **row} for row in rows], labels


def _complete(
    rows: Sequence[Row],
    definition: Definition,
    identity: Identity,
    on_conflict: str,
    labels: Sequence[str],
) -> pa.RecordBatch:
    """Complete rows. Raises Invalid for one that may exist and does not name every column."""
    names = definition.schema.names
    for place, row in enumerate(rows):
        by_id = isinstance(identity, RowIds)
        if by_id and row.get(ROW_ID) is None and row.get(VERSION) is not None:
            raise Invalid(
                f"{_place(place)} names a version and no {ROW_ID!r}: name both, or none for "
                "a new row"
            )
        new = row.get(ROW_ID) is None if by_id else row.get(VERSION) is None
        lost = [name for name in names if name not in row]
        if lost and not (new and (by_id or on_conflict == FAIL)):
            raise Invalid(
                f"{_place(place)} lacks {lost[0]!r}, and it replaces a row: name every "
                "column, null where it is empty, or change some cells with PATCH"
            )
    return _batch(rows, _schema((*stored_columns(identity), *names, *labels), definition))


def _cells(
    rows: Sequence[Row], definition: Definition, identity: Identity, labels: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows with values of Arrow, those that identify them with values of Python."""
    known = dict.fromkeys((*stored_columns(identity), *definition.schema.names, *labels))
    found: list[dict[str, Any]] = []
    for place, row in enumerate(rows):
        _check_named(row, place, identity)
        strange = [name for name in row if name not in known]
        if strange:
            raise Invalid(
                f"{_place(place)} names {strange[0]!r}, which the table does not have; its columns "
                f"are {', '.join(definition.schema.names)}"
            )
        values = batch_of([(_place(place), row)], _schema(list(row), definition))
        cells: dict[str, Any] = {name: values.column(name)[0] for name in row}
        for name in (*identity.columns, VERSION, *labels):
            if name in cells:
                cells[name] = plain(cells[name])
        found.append(cells)
    return found


def _check_named(row: Row, place: int, identity: Identity) -> None:
    for name in identity.columns:
        if row.get(name) is None:
            raise Invalid(f"{_place(place)} has no {name!r}, which identifies a row: name it")


def _check_only(row: Row, place: int, names: Sequence[str]) -> None:
    strange = [name for name in row if name not in names]
    if strange:
        raise Invalid(
            f"{_place(place)} names {strange[0]!r}, expected {', '.join(names)} and no more"
        )


def _batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    return batch_of([(_place(place), row) for place, row in enumerate(rows)], schema)


def _place(place: int) -> str:
    return f"row {place} of the set"


def _schema(names: Sequence[str], definition: Definition) -> pa.Schema:
    """The fields of these columns; one that the table does not have is a label."""
    hidden = {name: pa.field(name, pa.int64()) for name in (ROW_ID, VERSION)}
    own = {field.name: field for field in definition.schema}
    return pa.schema(
        [
            hidden.get(name) or own.get(name) or pa.field(name, pa.string())
            for name in dict.fromkeys(names)
        ]
    )
