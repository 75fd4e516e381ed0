"""The client's door: what a program asks of a gateway."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from blockstore.client.job import OnProgress, RemoteJob
from blockstore.client.parameters import sendable
from blockstore.client.rows import Rows
from blockstore.client.wire import Wire
from blockstore.errors import Invalid
from blockstore.world import World

_PIECE = 1 << 20
_MEDIA = {"csv": "text/csv", "tsv": "text/tab-separated-values"}
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".json": "json",
    ".arrow": "arrow",
}


class Client:
    """A gateway at ``url``;

    ``token`` is what `blockstore token` made, ``verify`` a file of certificates to trust.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 120.0,
        verify: str | bool = True,
        world: World | None = None,
    ) -> None:
        self._wire = Wire(url, token, world or World.real(), timeout_s=timeout_s, verify=verify)

    def close(self) -> None:
        """Let the connections go."""
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
    ) -> Rows:
        """A query: ``.to_arrow()``, ``.to_pandas()``, ``.to_polars()``, ``.to_pylist()``, or ``with
        ….stream()``.

        Dates and times among the parameters are sent as ISO texts. Raises Invalid for one that
        cannot be sent.
        """
        asked = {
            "sql": sql,
            "parameters": sendable(parameters) or None,
            "limit": limit,
            **_at(version, as_of, tag),
        }
        return Rows(self._wire, {name: value for name, value in asked.items() if value is not None})

    def tables(self) -> list[dict[str, Any]]:
        """Every table, with its version, rows, bytes and staleness."""
        found: list[dict[str, Any]] = self._wire.json("GET", "/v1/tables")["tables"]
        return found

    def table(self, name: str) -> dict[str, Any]:
        """One table with its columns and tags."""
        found: dict[str, Any] = self._wire.json("GET", f"/v1/tables/{quote(name)}")
        return found

    def history(self, name: str, *, limit: int = 100) -> list[dict[str, Any]]:
        """The newest versions of a table, the newest first."""
        path = f"/v1/tables/{quote(name)}/history"
        found: list[dict[str, Any]] = self._wire.json("GET", path, params={"limit": limit})[
            "entries"
        ]
        return found

    def upload(
        self,
        table: str,
        file: str | os.PathLike[str] | bytes | BinaryIO,
        *,
        form: str | None = None,
        nulls: Iterable[str] = (),
        message: str = "",
        key: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> RemoteJob:
        """Append the rows of a CSV or TSV file to a table: all of them, once, or none; ``.wait()``
        says which.

        ``key`` names the upload: sent again under the same key, also by another process, it is the
        same job. Without one a fresh key is drawn, under which lost answers are asked for again.
        ``progress`` is told the bytes sent so far. Raises Invalid for a file that is no CSV or TSV;
        what is wrong with a row, ``wait`` says.
        """
        kind = form or _form_of(file, "csv")
        if kind not in _MEDIA:
            raise Invalid(f"the file's form is {kind!r}, expected csv or tsv: say form=")
        opened = _opener(file)
        params = [("table", table), *(("null", text) for text in nulls)] + (
            [("message", message)] if message else []
        )
        headers = {
            "Content-Type": _MEDIA[kind],
            "Idempotency-Key": key or self._wire.world.ids.ulid(),
        }
        told = self._wire.json(
            "POST",
            "/v1/jobs",
            params=params,
            headers=headers,
            content=lambda: _sent(opened, progress),
            again=not isinstance(file, io.IOBase) or file.seekable(),
        )
        return RemoteJob(self._wire, told)

    def query_job(
        self, sql: str, *, form: str = "parquet", key: str | None = None, **at: Any
    ) -> RemoteJob:
        """A query that may take long, into a file: ``.wait().save(path)``."""
        return self._ask({"kind": "query", "sql": sql, "format": form}, key, at)

    def download(
        self,
        table: str,
        path: str | os.PathLike[str],
        *,
        form: str | None = None,
        progress: OnProgress | None = None,
        timeout_s: float = 3600.0,
        **at: Any,
    ) -> RemoteJob:
        """Write a table's rows to a file of this machine, CSV, TSV or Parquet as its name says;
        whole or not at all."""
        kind = form or _form_of(path, "")
        job = self._ask({"kind": "download", "table": table, "format": kind}, None, at)
        job.wait(timeout_s, progress=progress)
        job.save(path, progress=progress)
        return job

    def job(self, job: str) -> RemoteJob:
        """A job by its id."""
        return RemoteJob(self._wire, self._wire.json("GET", f"/v1/jobs/{quote(job)}"))

    def jobs(self) -> list[RemoteJob]:
        """The jobs of this token, the newest first."""
        return [RemoteJob(self._wire, told) for told in self._wire.json("GET", "/v1/jobs")["jobs"]]

    def _ask(self, asked: dict[str, object], key: str | None, at: dict[str, Any]) -> RemoteJob:
        limit = at.pop("limit", None)
        body = {**asked, **_at(at.pop("version", None), at.pop("as_of", None), at.pop("tag", None))}
        if at:
            raise Invalid(f"{min(at)} is not understood, expected version, as_of, tag or limit")
        if limit is not None:
            body["limit"] = limit
        headers = {"Idempotency-Key": key or self._wire.world.ids.ulid()}
        return RemoteJob(
            self._wire, self._wire.json("POST", "/v1/jobs", json=body, headers=headers)
        )


def _at(version: Any, as_of: Any, tag: Any) -> dict[str, Any]:
    moment = as_of.isoformat() if hasattr(as_of, "isoformat") else as_of
    asked = {"version": version, "as_of": moment, "tag": tag}
    return {name: value for name, value in asked.items() if value is not None}


def _form_of(file: object, otherwise: str) -> str:
    """The form that a file's name tells."""
    if not isinstance(file, str | os.PathLike):
        return otherwise
    name = os.fspath(file)
    found = _SUFFIXES.get(Path(str(name)).suffix.lower())
    if found is None:
        raise Invalid(f"the name of {name} does not tell its form: say form=")
    return found


def _opener(
    file: str | os.PathLike[str] | bytes | BinaryIO,
) -> Callable[[], AbstractContextManager[BinaryIO]]:
    """How to begin to read the file, as often as it is sent; a caller's own file stays open."""
    if isinstance(file, bytes):
        return lambda: io.BytesIO(file)
    if isinstance(file, str | os.PathLike):
        return lambda: open(file, "rb")
    start = file.tell() if file.seekable() else 0

    def again() -> AbstractContextManager[BinaryIO]:
        if file.seekable():
            file.seek(start)
        return nullcontext(file)

    return again


def _sent(
    opened: Callable[[], AbstractContextManager[BinaryIO]], progress: Callable[[int], None] | None
) -> Iterator[bytes]:
    sent = 0
    with opened() as file:
        while piece := file.read(_PIECE):
            yield piece
            sent += len(piece)
            if progress is not None:
                progress(sent)
