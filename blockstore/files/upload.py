"""Uploading a file: its bytes first, its record last.

Rules:
- Nothing is visible before the record, and a complete file is never changed. An upload that died is
  removed by the compactor once it is older than ``partial_delay``.
- The bytes are hashed as they pass, and memory does not grow with them.
- An upload may be begun again under its id, until the upload timeout. If it was complete, the same
  bytes return the same handle, and other bytes are a Conflict.
- An upload that took longer than the upload timeout raises Unavailable, whatever became of it:
  something that old may be taken for an aborted one.
"""

from __future__ import annotations

import hashlib
import io
import mimetypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from blockstore.bucket.api import Bucket, ObjectWriter
from blockstore.errors import AlreadyExists, Conflict, Invalid, ObjectMissing, Unavailable
from blockstore.format.file_handle import (
    FileHandle,
    check_content_type,
    check_name,
    decode_record,
    encode_record,
)
from blockstore.format.properties import UPLOAD_TIMEOUT_S
from blockstore.ids import ulid_time_ms
from blockstore.names import FILE_RECORD, file_key, file_object_name, is_ulid
from blockstore.world import World

_PIECE = 8 * 1024 * 1024
_UNKNOWN_TYPE = "application/octet-stream"

Source = str | os.PathLike[str] | bytes | BinaryIO
"""A path, the bytes, or an open binary file."""


class FileUpload:
    """One file on its way into the table; end it with ``finish`` or ``abort``."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        *,
        name: str,
        content_type: str | None = None,
        file_id: str | None = None,
    ) -> None:
        check_name(name)
        if content_type is None:
            content_type = mimetypes.guess_type(name, strict=False)[0] or _UNKNOWN_TYPE
        check_content_type(content_type)
        if file_id is not None and not is_ulid(file_id):
            raise Invalid(f"the file's id is {file_id[:60]!r}, expected the ULID of an upload")
        self.id = world.ids.ulid() if file_id is None else file_id
        self._bucket = bucket
        self._world = world
        self._name = name
        self._content_type = content_type
        self._digest = hashlib.sha256()
        self._size = 0
        self._check_time()
        self._before = None if file_id is None else self._recorded()
        self._writer: ObjectWriter | None = None
        if self._before is None:
            self._writer = bucket.writer(file_key(self.id, file_object_name(name)))

    def write(self, data: bytes | memoryview) -> None:
        """Take more bytes."""
        self._digest.update(data)
        self._size += len(data)
        if self._writer is not None:
            self._writer.write(data)

    def finish(self) -> FileHandle:
        """Make the file complete, and return its handle.

        Raises:
            Unavailable: It took too long; upload it again.
            Conflict: The id has another file.
        """
        handle = FileHandle(
            id=self.id,
            name=self._name,
            content_type=self._content_type,
            bytes=self._size,
            sha256=self._digest.hexdigest(),
        )
        if self._before is None:
            assert self._writer is not None, "a file that is not complete has a writer"
            self._writer.close()
            self._check_time()
            try:
                self._bucket.put_if_absent(file_key(self.id, FILE_RECORD), encode_record(handle))
            except AlreadyExists:
                self._before = self._recorded()
        if self._before is not None and self._before != handle:
            raise Conflict(
                f"the id {self.id} has the file {self._before['name']!r} of "
                f"{self._before['bytes']:,} bytes already, and a file is never changed: upload "
                "this one under a new id"
            )
        self._check_time()
        return handle

    def abort(self) -> None:
        """Forget the upload; allowed at any time. Nothing of it is visible."""
        if self._writer is not None:
            self._writer.abort()

    def _recorded(self) -> FileHandle | None:
        try:
            data = self._bucket.get(file_key(self.id, FILE_RECORD)).data
        except ObjectMissing:
            return None
        return decode_record(data, file=self.id)[0]

    def _check_time(self) -> None:
        if self._world.clock.now_ms() - ulid_time_ms(self.id) > UPLOAD_TIMEOUT_S * 1000:
            raise Unavailable(
                f"the upload of file {self._name!r} began more than {UPLOAD_TIMEOUT_S // 3600} "
                "hours ago, and may be taken for an aborted one: upload it again under a new id"
            )


def put_file(
    bucket: Bucket,
    world: World,
    source: Source,
    *,
    name: str | None = None,
    content_type: str | None = None,
    file_id: str | None = None,
) -> FileHandle:
    """Upload a file, and return the handle that rows name it by.

    Args:
        bucket: The table.
        world: The process.
        source: A path, the bytes, or an open binary file, which is read to its end.
        name: Its name; by default that of the path.
        content_type: Its media type; by default what the name suggests.
        file_id: The id of an earlier attempt, to begin it again.

    Raises:
        Invalid: The name, the type or the source is not one.
        Unavailable: The store does not respond; try again.
    """
    if name is None:
        if not isinstance(source, str | os.PathLike):
            raise Invalid("a file that is not a path has no name: pass name=")
        name = Path(source).name
    with _opened(source) as opened:
        upload = FileUpload(bucket, world, name=name, content_type=content_type, file_id=file_id)
        try:
            while piece := opened.read(_PIECE):
                upload.write(piece)
            return upload.finish()
        except BaseException:
            upload.abort()
            raise


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
    elif isinstance(source, str | os.PathLike):
        try:
            opened = open(source, "rb")  # noqa: SIM115 - closed below; only opening it is tried
        except OSError as error:
            raise Invalid(f"{source} cannot be read ({error.strerror}): check the path") from None
        with opened:
            yield opened
    elif hasattr(source, "read"):
        yield source
    else:
        raise Invalid(f"the file is {type(source).__name__}, expected a path, bytes or open file")
