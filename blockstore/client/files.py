"""Files in cells through a gateway."""

from __future__ import annotations

import hashlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from blockstore.client.atomic_file import atomic_file
from blockstore.client.changes import given, named, named_labels
from blockstore.client.sending import opener, sent
from blockstore.client.wire import Wire, pieces
from blockstore.errors import Invalid, Unavailable


class Files(ABC):
    """The part of a client that uploads and downloads files of cells; ``Client`` inherits it."""

    @property
    @abstractmethod
    def _wire(self) -> Wire: ...

    def put_file(
        self,
        table: str,
        file: str | os.PathLike[str] | bytes | BinaryIO,
        *,
        name: str | None = None,
        content_type: str | None = None,
    ) -> dict[str, Any]:
        """Upload a file into a table, and return the handle to put into a cell.

        ``file`` is a path, the bytes, or an open binary file; ``content_type`` is by default what
        the name says. A file that no row names is removed some days later. Raises Invalid for a
        table without a column of type ``file``.
        """
        if name is None:
            if not isinstance(file, str | os.PathLike):
                raise Invalid("a file that is not a path has no name: pass name=")
            name = Path(file).name
        opened = opener(file)
        headers = {} if content_type is None else {"Content-Type": content_type}
        found: dict[str, Any] = self._wire.json(
            "POST",
            f"/v1/tables/{quote(table)}/files",
            params={"name": name},
            headers=headers,
            content=lambda: sent(opened, None),
            again=not isinstance(file, io.IOBase) or file.seekable(),
        )
        return found

    def get_file(
        self,
        table: str,
        row: object,
        column: str,
        path: str | os.PathLike[str],
        *,
        version: int | None = None,
        min_version: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> int:
        """Download the file that a cell names; it appears at ``path`` only when it is complete and
        has its SHA-256. Return its size in bytes.

        ``row`` is a row id or a key; a key of several columns is a tuple. ``version`` is the row's;
        ``labels`` are, where several rows have the key.
        """
        digest, size = hashlib.sha256(), 0
        with (
            self._wire.answer(
                "GET",
                f"/v1/tables/{quote(table)}/rows/{named(row)}/files/{quote(column, safe='')}",
                params=given(version=version, min_version=min_version) | named_labels(labels),
                headers={"Accept-Encoding": "identity"},
            ) as found,
            atomic_file(path, self._wire.world.ids) as out,
        ):
            for piece in pieces(found):
                out.write(piece)
                digest.update(piece)
                size += len(piece)
            if found.headers.get("etag", "").strip('"') != digest.hexdigest():
                raise Unavailable(
                    f"the file in column {column!r} of row {row!r} arrived damaged: download it "
                    "again"
                )
        return size
