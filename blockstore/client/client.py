"""The client of a gateway: queries, tables, and jobs."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa

from blockstore.client.changes import Changes
from blockstore.client.feed import RemoteChanges
from blockstore.client.files import Files
from blockstore.client.job import JOB, OnProgress, RemoteJob
from blockstore.client.parameters import sendable
from blockstore.client.rows import ARROW, Rows
from blockstore.client.sending import ArrowStream, opener, sent, stream_of
from blockstore.client.wire import Wire
from blockstore.errors import Invalid
from blockstore.world import World

_PAGE = 1_000
"""The jobs of one page of the list, at most."""
_MEDIA = {"csv": "text/csv", "tsv": "text/tab-separated-values", "arrow": ARROW}
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".json": "json",
    ".arrow": "arrow",
}


class Client(Changes, Files):
    """A gateway at ``url``. ``token`` was made by `blockstore token`; ``verify`` is a file of
    trusted certificates."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 120.0,
        verify: str | bool = True,
        world: World | None = None,
    ) -> None:
        self._to = Wire(url, token, world or World.real(), timeout_s=timeout_s, verify=verify)

    @property
    def _wire(self) -> Wire:
        return self._to

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sql(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        version: int | Mapping[str, int] | None = None,
        as_of: object = None,
        tag: str | Mapping[str, str] | None = None,
        limit: int | None = None,
        row_ids: bool = False,
        min_version: Mapping[str, int] | None = None,
    ) -> Rows:
        """A query: ``.to_arrow()``, ``.to_pandas()``, ``.to_polars()``, ``.to_pylist()``, or ``with
        ….stream()``.

        With ``row_ids`` each row begins with its ``_row_id`` and ``_version``. ``min_version`` is,
        for each table, the version that must be read at least, such as that of a change. Raises
        Invalid for a parameter that cannot be sent.
        """
        question = {
            "sql": sql,
            "parameters": sendable(parameters) or None,
            "limit": limit,
            "row_ids": row_ids or None,
            "min_version": None if min_version is None else dict(min_version),
            **_at(version, as_of, tag),
        }
        return Rows(
            self._wire, {name: value for name, value in question.items() if value is not None}
        )

    def tables(self) -> list[dict[str, Any]]:
        """All tables, with version, rows, bytes and staleness."""
        found: list[dict[str, Any]] = self._wire.json("GET", "/v1/tables", needs=["tables"])[
            "tables"
        ]
        return found

    def table(self, name: str, *, min_version: int | None = None) -> dict[str, Any]:
        """One table with its columns and tags; with ``min_version`` not before that version."""
        params = {} if min_version is None else {"min_version": min_version}
        found: dict[str, Any] = self._wire.json("GET", f"/v1/tables/{quote(name)}", params=params)
        return found

    def history(self, name: str, *, limit: int = 100) -> list[dict[str, Any]]:
        """The newest versions of a table, newest first."""
        path = f"/v1/tables/{quote(name)}/history"
        params = {"limit": limit}
        found = self._wire.json("GET", path, needs=["entries"], params=params)
        entries: list[dict[str, Any]] = found["entries"]
        return entries

    def changes(
        self,
        name: str,
        after: int,
        until: int | None = None,
        *,
        before_images: bool = False,
        wait_s: float = 0.0,
    ) -> RemoteChanges:
        """What the versions of a table after ``after`` changed, row by row, as ``Table.changes``.

        ``until`` of the result, once it is read, is the version to continue after. With ``wait_s``
        (at most 60) the gateway waits for a newer version if there is none.
        """
        given: dict[str, object] = {
            "after": after,
            "until": until,
            "before_images": before_images or None,
            "wait": f"{round(wait_s * 1000)}ms" if wait_s else None,
        }
        params = {name: value for name, value in given.items() if value is not None}
        return RemoteChanges(self._wire, f"/v1/tables/{quote(name)}/changes", params)

    def upload(
        self,
        table: str,
        file: str | os.PathLike[str] | bytes | BinaryIO | ArrowStream,
        *,
        form: str | None = None,
        mode: str = "append",
        nulls: Iterable[str] = (),
        message: str = "",
        key: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> RemoteJob:
        """Write rows to a table, all of them exactly once, or none. ``.wait()`` returns when they
        are written, and raises what is wrong with a row; ``told`` has all wrong lines of a file
        then.

        A file that begins with ``_row_id,_version`` (with a key: ``_version``), as a download with
        ``row_ids`` does, also changes rows: those that still have that version.

        Args:
            table: The table's name.
            file: A DataFrame of pandas or polars, an Arrow table or reader; or a CSV or TSV file or
                an Arrow stream: a path, the bytes, or an open binary file.
            form: ``csv``, ``tsv`` or ``arrow``; by default from the file's name.
            mode: ``append``; on a table with a key also ``upsert`` (each row becomes the current
                one of its key) and ``insert`` (keys that exist are refused).
            nulls: Other spellings of null.
            message: The message in the table's history.
            key: Identifies the upload: with the same key, also from another process, it is the same
                job. By default a new key, with which this call retries.
            progress: Called with the number of bytes sent so far.

        Raises Invalid for a file of another form.
        """
        content, again, kind = _body(file, form, progress)
        if kind not in _MEDIA:
            raise Invalid(f"the file's form is {kind!r}, expected csv, tsv or arrow: pass form=")
        params = [("table", table), ("mode", mode), *(("null", text) for text in nulls)] + (
            [("message", message)] if message else []
        )
        headers = {
            "Content-Type": _MEDIA[kind],
            "Idempotency-Key": key or self._wire.world.ids.ulid(),
        }
        shown = self._wire.json(
            "POST",
            "/v1/jobs",
            needs=JOB,
            params=params,
            headers=headers,
            content=content,
            again=again,
        )
        return RemoteJob(self._wire, shown)

    def query_job(
        self,
        sql: str,
        *,
        form: str = "parquet",
        key: str | None = None,
        row_ids: bool = False,
        **at: Any,
    ) -> RemoteJob:
        """A query that may take long, written to a file: ``.wait().save(path)``."""
        asked = {"kind": "query", "sql": sql, "format": form, **_ids(row_ids)}
        return self._submit(asked, key, at)

    def download(
        self,
        table: str,
        path: str | os.PathLike[str],
        *,
        form: str | None = None,
        row_ids: bool = False,
        progress: OnProgress | None = None,
        timeout_s: float = 3600.0,
        **at: Any,
    ) -> RemoteJob:
        """Write a table's rows to a local file: CSV, TSV or Parquet by its name. It appears only
        when it is complete. With ``row_ids`` each row begins with its ``_row_id`` and ``_version``,
        so that the file can be changed and uploaded."""
        kind = form or _form_of(path, "")
        asked = {"kind": "download", "table": table, "format": kind, **_ids(row_ids)}
        job = self._submit(asked, None, at)
        job.wait(timeout_s, progress=progress)
        job.save(path, progress=progress)
        return job

    def job(self, job: str) -> RemoteJob:
        """A job by its id."""
        return RemoteJob(self._wire, self._wire.json("GET", f"/v1/jobs/{quote(job)}", needs=JOB))

    def jobs(self, limit: int | None = 100) -> list[RemoteJob]:
        """The newest jobs of this token, newest first; with ``limit=None`` all that are kept."""
        found: list[RemoteJob] = []
        params: dict[str, str] = {}
        while limit is None or len(found) < limit:
            most = _PAGE if limit is None else min(_PAGE, limit - len(found))
            given = {"limit": str(most), **params}
            page = self._wire.json("GET", "/v1/jobs", needs=["jobs"], params=given)
            found += [RemoteJob(self._wire, shown) for shown in page["jobs"]]
            if page.get("next") is None:  # the last page, or a gateway of an earlier release
                break
            params = {"before": page["next"]}
        return found

    def _submit(self, job: dict[str, object], key: str | None, at: dict[str, Any]) -> RemoteJob:
        limit = at.pop("limit", None)
        body = {**job, **_at(at.pop("version", None), at.pop("as_of", None), at.pop("tag", None))}
        if at:
            raise Invalid(f"{min(at)} is unknown, expected version, as_of, tag or limit")
        if limit is not None:
            body["limit"] = limit
        headers = {"Idempotency-Key": key or self._wire.world.ids.ulid()}
        return RemoteJob(
            self._wire, self._wire.json("POST", "/v1/jobs", needs=JOB, json=body, headers=headers)
        )


def _body(
    rows: Any, form: str | None, progress: Callable[[int], None] | None
) -> tuple[Callable[[], Iterator[bytes]], bool, str]:
    """What makes the body of an upload, whether it does so more than once, and its form."""
    if hasattr(rows, "__arrow_c_stream__"):
        again = not isinstance(rows, pa.RecordBatchReader)
        return lambda: stream_of(rows, progress), again, form or "arrow"
    opened = opener(rows)
    again = not isinstance(rows, io.IOBase) or rows.seekable()
    return lambda: sent(opened, progress), again, form or _form_of(rows, "csv")


def _ids(row_ids: bool) -> dict[str, object]:
    return {"row_ids": True} if row_ids else {}


def _at(version: Any, as_of: Any, tag: Any) -> dict[str, Any]:
    moment = as_of.isoformat() if hasattr(as_of, "isoformat") else as_of
    chosen = {"version": version, "as_of": moment, "tag": tag}
    return {name: value for name, value in chosen.items() if value is not None}


def _form_of(file: object, otherwise: str) -> str:
    """The form of a file, by its name."""
    if not isinstance(file, str | os.PathLike):
        return otherwise
    name = os.fspath(file)
    found = _SUFFIXES.get(Path(str(name)).suffix.lower())
    if found is None:
        raise Invalid(f"the name of {name} does not show its form: pass form=")
    return found
