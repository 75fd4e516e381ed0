"""Changes of rows and of tables through a gateway, and versions of rows.

Rules:
- A change happens once: it has an idempotency key, and is sent again after a lost response.
- A method returns when the change is done, with what the gateway says of it: ``version``, and how
  many rows were ``inserted``, ``updated``, ``deleted`` and left ``unchanged``, where it is known.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from blockstore.client.job import JOB, RemoteJob
from blockstore.client.parameters import sendable
from blockstore.client.wire import Wire
from blockstore.errors import Invalid

Row = Mapping[str, Any]
Columns = str | Sequence[Mapping[str, Any]]
"""Columns as ``name:type,…``, or one mapping each with ``name``, ``type``, and perhaps ``nullable``
and the rules ``max_length``, ``pattern``, ``default``, ``check`` and ``description``."""

_WAIT_S = 30
_VERSIONS = 1_000
"""Versions of rows that one request names at most."""


class Changes(ABC):
    """The part of a client that changes rows and tables; ``Client`` inherits it."""

    @property
    @abstractmethod
    def _wire(self) -> Wire: ...

    def create_table(
        self,
        name: str,
        columns: Columns,
        *,
        typed: bool = False,
        time_column: str | None = None,
        sort_by: Iterable[str] = (),
        row_ids: bool = False,
        key: str | Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
        properties: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Create a table in the gateway's lake. With ``typed`` the types of the columns, which are
        one mapping each, are those of ``typed_schema``: texts have at most 1,000 characters unless
        ``max_length`` says otherwise. Raises Conflict if there is one of this name."""
        body = {
            "name": name,
            "columns": columns if isinstance(columns, str) else [dict(one) for one in columns],
            "typed": typed,
            "time_column": time_column,
            "sort_by": list(sort_by),
            "row_ids": row_ids,
            "key": [key] if isinstance(key, str) else list(key),
            "labels": dict(labels or {}),
            "properties": dict(properties or {}),
        }
        return self._change("POST", "/v1/tables", body, idempotency_key)

    def alter_table(
        self,
        name: str,
        *,
        add: Columns | None = None,
        widen: Mapping[str, str] | None = None,
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        reorder: Iterable[str] = (),
        columns: Mapping[str, Mapping[str, object]] | None = None,
        properties: Mapping[str, object] | None = None,
        message: str = "",
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Change columns, their rules and properties, as ``Table.alter`` does. Raises Invalid for a
        new rule that a row breaks."""
        body = {
            "add": add if add is None or isinstance(add, str) else [dict(one) for one in add],
            "widen": None if widen is None else dict(widen),
            "rename": None if rename is None else dict(rename),
            "drop": list(drop),
            "reorder": list(reorder),
            "columns": None if columns is None else {k: dict(v) for k, v in columns.items()},
            "properties": None if properties is None else dict(properties),
            "message": message,
        }
        return self._change("PATCH", f"/v1/tables/{quote(name)}", body, idempotency_key)

    def drop_table(
        self, name: str, *, message: str = "", idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Drop a table. Its name is free at once, and ``undrop_table`` brings it back for its
        ``delete_delay``, until another one is created there."""
        path = f"/v1/tables/{quote(name)}"
        return self._change("DELETE", path, {}, idempotency_key, message=message)

    def undrop_table(
        self, name: str, *, message: str = "", idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Bring a dropped table back, as it was. Raises Conflict if it is not dropped, NotFound if
        its blocks have left it."""
        path = f"/v1/tables/{quote(name)}/undrop"
        return self._change("POST", path, {}, idempotency_key, message=message)

    def put_rows(
        self,
        table: str,
        rows: Iterable[Row],
        *,
        on_conflict: str = "fail",
        labels: Mapping[str, str] | None = None,
        message: str = "",
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Put complete rows: one with a ``_row_id`` replaces that row, with ``_version`` only if it
        still has that version; one without is new. With a key, ``on_conflict`` says what a row
        without a version does where its key exists: ``"fail"`` or ``"replace"``. ``labels`` are
        those of new rows, and here as below of the rows that keys name.

        Raises RowConflict with the rows that are not as expected; nothing is applied then.
        """
        body = {
            "rows": _sendable(rows),
            "on_conflict": on_conflict,
            "message": message,
            **_labels(labels),
        }
        return self._change("POST", _rows_of(table), body, idempotency_key)

    def set_cells(
        self,
        table: str,
        rows: Iterable[Row],
        *,
        labels: Mapping[str, str] | None = None,
        new: Iterable[Row] = (),
        delete: Iterable[Row] = (),
        message: str = "",
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Change some cells of rows; each names its ``_row_id`` or key, the cells to change, and
        perhaps the ``_version`` that was read. In the same version ``new`` rows are added, and the
        rows that ``delete`` names in the same way are deleted. Raises RowConflict and NotFound."""
        body = {"rows": _sendable(rows), "message": message, **_labels(labels)}
        more = {"new": _sendable(new), "delete": _sendable(delete)}
        body |= {name: listed for name, listed in more.items() if listed}
        return self._change("PATCH", _rows_of(table), body, idempotency_key)

    def delete_rows(
        self,
        table: str,
        rows: Iterable[int | Row],
        *,
        labels: Mapping[str, str] | None = None,
        message: str = "",
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Delete rows: row ids, or mappings with ``_row_id`` or the columns of the key, and perhaps
        the ``_version`` that was read. Those that do not exist are passed over. Raises RowConflict
        where a row has another version than the one that was read."""
        named = [row if isinstance(row, Mapping) else {"_row_id": row} for row in rows]
        body = {"rows": _sendable(named), "message": message, **_labels(labels)}
        return self._change("DELETE", _rows_of(table), body, idempotency_key)

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        message: str = "",
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Carry out one INSERT, UPDATE, DELETE, MERGE or TRUNCATE, or several from BEGIN to COMMIT,
        or one CREATE TABLE, ALTER TABLE or DROP TABLE. The values of ``parameters`` are for ``?``
        and ``$1``, or for ``$name``. The result has the ``table`` too. Raises RowConflict where a
        key exists."""
        body = {"sql": sql, "parameters": sendable(parameters) or None, "message": message}
        job = self._job("POST", "/v1/statements", body, idempotency_key)
        return {"table": job.get("table"), **(job.get("written") or {})}

    def row(
        self,
        table: str,
        row: Any,
        *,
        version: int | None = None,
        min_version: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """A row as it is, or as it was in a version. ``row`` is its id or key; a tuple for a key of
        several columns. Raises NotFound, and Invalid where rows with different labels have this
        key, and no labels are named."""
        found: dict[str, Any] = self._wire.json(
            "GET",
            f"{_rows_of(table)}/{named(row)}",
            needs=["row"],
            params=given(version=version, min_version=min_version) | named_labels(labels),
        )["row"]
        return found

    def fetch(
        self,
        table: str,
        rows: Iterable[tuple[Any, int]],
        *,
        min_version: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Given versions of given rows, in their order: pairs of a row id (or key; a tuple for a
        key of several columns) and a version. Raises NotFound if one is not kept."""
        identity = self._wire.json("GET", f"/v1/tables/{quote(table)}", needs=["key"])["key"] or [
            "_row_id"
        ]
        wanted = [_version_of(row, version, identity) for row, version in rows]
        found: list[dict[str, Any]] = []
        for start in range(0, len(wanted), _VERSIONS):
            found += self._wire.json(
                "POST",
                f"{_rows_of(table)}/fetch",
                needs=["rows"],
                json={"rows": wanted[start : start + _VERSIONS], **_labels(labels)},
                params=given(min_version=min_version),
            )["rows"]
        return found

    def row_history(
        self,
        table: str,
        row: Any,
        *,
        min_version: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """All versions of a row that are kept, the newest first; of rows with any labels, unless
        these are named."""
        found: list[dict[str, Any]] = self._wire.json(
            "GET",
            f"{_rows_of(table)}/{named(row)}/history",
            needs=["rows"],
            params=given(min_version=min_version) | named_labels(labels),
        )["rows"]
        return found

    def _change(self, *request: Any, **params: Any) -> dict[str, Any]:
        return dict(self._job(*request, **params).get("written") or {})

    def _job(
        self, method: str, path: str, body: Mapping[str, object], key: str | None, **params: str
    ) -> dict[str, Any]:
        headers = {"Idempotency-Key": key or self._wire.world.ids.ulid()}
        shown = self._wire.json(
            method,
            path,
            needs=JOB,
            json=body,
            headers=headers,
            params={"wait": _WAIT_S, **params},
        )
        return RemoteJob(self._wire, shown).wait().told


_NO_NAMES = ("", ".", "..")
"""Keys that clients or servers drop from a path."""


def _rows_of(table: str) -> str:
    return f"/v1/tables/{quote(table)}/rows"


def named(row: Any) -> str:
    """A row as a path names it: a text that could be taken for more of the path, or that is no
    line, is a JSON array whose slashes are escaped, for escapes of URLs are gone before the path
    is read."""
    if isinstance(row, list | tuple):
        text = json.dumps([_value(one, "the key") for one in row])
    else:
        value = _value(row, "the row")
        text = json.dumps([value]) if isinstance(value, str) and _is_odd(value) else str(value)
    return quote(text.replace("/", "\\u002f"), safe="")


def _is_odd(text: str) -> bool:
    return (
        text.startswith("[")
        or "/" in text
        or text in _NO_NAMES
        or any(character < " " for character in text)
    )


def _version_of(row: Any, version: int, identity: Sequence[str]) -> dict[str, object]:
    """A version of a row as a request names it. Raises Invalid for a key of other columns."""
    values = row if isinstance(row, tuple) else (row,)
    if len(values) != len(identity):
        raise Invalid(
            f"row {row!r} has {len(values)} values, expected one for each of {', '.join(identity)}"
        )
    named = {name: _value(one, name) for name, one in zip(identity, values, strict=True)}
    return {**named, "_version": version}


def named_labels(labels: Mapping[str, str] | None) -> dict[str, Any]:
    """The parameters that name labels."""
    return {"label": [f"{name}={value}" for name, value in labels.items()]} if labels else {}


def given(**values: int | None) -> dict[str, Any]:
    """The parameters that are given."""
    return {name: value for name, value in values.items() if value is not None}


def _labels(labels: Mapping[str, str] | None) -> dict[str, object]:
    """What a request says of labels: nothing where none are given."""
    return {} if labels is None else {"labels": dict(labels)}


def _sendable(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Rows as JSON: times as ISO texts, decimals as texts with all digits, bytes as base64. Raises
    Invalid for a value that is none of these."""
    found: list[dict[str, object]] = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise Invalid(f"a row is {type(row).__name__}, expected a mapping from column to value")
        found.append({str(name): _value(value, str(name)) for name, value in row.items()})
    return found


def _value(value: object, name: str) -> object:
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [_value(one, name) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _value(one, name) for key, one in value.items()}
    raise Invalid(
        f"column {name!r} has a {type(value).__name__}, expected a number, a text, true or false, "
        "a date or a time, bytes, or a list of these"
    )
