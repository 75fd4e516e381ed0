"""What a handle on a table offers for files in cells; ``Table`` inherits it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from blockstore.bucket.api import Bucket
from blockstore.errors import Corrupt, Invalid, NotFound
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, VERSION
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.files.reading import FileReader
    from blockstore.files.upload import Source
    from blockstore.format.file_handle import FileHandle


class FilesOfCells(ABC):
    """Files that cells name: uploaded before their rows, kept as long as a row names them."""

    bucket: Bucket
    world: World

    @property
    @abstractmethod
    def definition(self) -> Definition: ...

    @abstractmethod
    def snapshot(self) -> TableSnapshot: ...

    def put_file(
        self,
        source: Source,
        *,
        name: str | None = None,
        content_type: str | None = None,
        file_id: str | None = None,
    ) -> FileHandle:
        """Upload a file, and return the handle to put into a cell of a column of type ``file``.

        ``source`` is a path, the bytes, or an open binary file; memory does not grow with it. A
        file that no row names is removed some days later. ``file_id`` is the id of an earlier
        attempt, to begin it again. Raises Invalid for a table without such a column.
        """
        from blockstore.files.upload import put_file

        check_has_files(self.definition, self.bucket.url)
        return put_file(
            self.bucket,
            self.world,
            source,
            name=name,
            content_type=content_type,
            file_id=file_id,
        )

    def open_file(
        self,
        row: Any,
        column: str,
        *,
        version: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> FileReader:
        """Open the file that a cell names, as a stream of bytes.

        ``row`` is a row id or a key; ``version`` is the row's, of those that are kept. Reading
        raises Corrupt before its end where the bytes are not those of the handle. Raises NotFound
        for a row that does not exist, and for a cell without a file; and Invalid where several rows
        with different ``labels`` have the key, and none are named.
        """
        return open_cell(self.snapshot(), row, column, version, labels)

    def open_handle(self, handle: FileHandle) -> FileReader:
        """Open the file of a handle, as ``open_file`` does; for rows that were found by a query."""
        from blockstore.files.reading import open_handle

        return open_handle(self.bucket, handle)


def check_has_files(definition: Definition, url: str) -> None:
    """Raise Invalid for a table without a column of type ``file``."""
    from blockstore.files.named import columns_with_files

    if not columns_with_files(definition):
        raise Invalid(
            f"the table at {url} has no column of type file, so no row could name a file: add one "
            "with alter"
        )


def open_cell(
    view: TableSnapshot,
    row: Any,
    column: str,
    version: int | None,
    labels: Mapping[str, str] | None = None,
) -> FileReader:
    """Open the file that a cell of a snapshot names. Raises as ``open_file``."""
    from blockstore.files.named import columns_with_files
    from blockstore.files.reading import open_handle
    from blockstore.format.value_text import row_text
    from blockstore.rows.versions import row_at

    of_files = columns_with_files(view.definition)
    if column not in of_files:
        found = f"its columns of files are {', '.join(of_files)}" if of_files else "it has none"
        raise Invalid(f"{column!r} is no column of type file of this table: {found}")
    rows = row_at(
        view.bucket,
        view.world,
        view.snapshot,
        row,
        version=version,
        labels=labels,
        reads=view.reads,
    )
    handle = rows[column][0].as_py()
    if rows[DELETED][0].as_py():
        raise NotFound(
            f"row {row_text(row)} was deleted in version {rows[VERSION][0]}: name a version for "
            "what it was before"
        )
    if handle is None:
        raise NotFound(f"column {column!r} of row {row_text(row)} names no file: the cell is null")
    try:
        return open_handle(view.bucket, handle)
    except NotFound as error:
        raise Corrupt(
            f"column {column!r} of row {row_text(row)} names a file that is gone ({error}): "
            f"restore files/{handle['id']}/ from a copy"
        ) from None
