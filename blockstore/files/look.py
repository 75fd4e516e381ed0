"""A writer's look at the files that its rows name.

Rules:
- A row may name only a file that is complete in this table, with the handle's every part.
- The look comes after the block's ULID was drawn, and a block that is uploaded again under a new
  ULID is looked at again. That, the horizon and the mark are why no row is left without its file
  (``compactor/clean/files.py``).
- A file whose id is younger than the upload timeout, by the block's ULID, is never marked before
  the horizon passes the block: one GET. An older one may be: its mark and its object are looked at
  too, and a mark refuses the row.
- Handles that were copied from the row that is replaced, as it is at the version that was read, are
  not looked up: the commit is refused if that row was touched meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from blockstore.bucket.api import ReadBucket, is_there
from blockstore.errors import Corrupt, Invalid, NotFound, ObjectMissing
from blockstore.files.named import NamedFile, columns_with_files, handles_in, named_by_block
from blockstore.files.reading import find_file
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.file_handle import file_columns, handle_of
from blockstore.format.properties import UPLOAD_TIMEOUT_S
from blockstore.format.schema import deserialize
from blockstore.ids import ulid_time_ms
from blockstore.names import DELETION_MARK, file_key
from blockstore.world import World

_KNOWN = 100_000
"""So many files that were looked at are remembered; then the memory begins again."""
_AT_ONCE = 1_000


@dataclass(slots=True)
class FileLook:
    """Looks at the files that new rows of one block name."""

    bucket: ReadBucket
    world: World
    ulid: str
    """The block's."""
    columns: tuple[str, ...]
    _known: set[tuple[object, ...]] = field(default_factory=set)

    @classmethod
    def of(
        cls, bucket: ReadBucket, world: World, ulid: str, definition: Definition
    ) -> FileLook | None:
        """For rows under a definition; None where no column names files."""
        columns = columns_with_files(definition)
        return cls(bucket, world, ulid, columns) if columns else None

    def take(
        self,
        rows: pa.RecordBatch,
        first_row: int = 0,
        was: pa.RecordBatch | pa.Table | None = None,
        places: pa.Array | None = None,
    ) -> None:
        """Look at the files of rows under the table's schema.

        Args:
            rows: New rows, or new images of rows.
            first_row: The number of the first, for messages.
            was: The rows that these replace, as they are at the version that was read.
            places: The number of each row, where they do not follow the first.

        Raises:
            Invalid: A file is not as its handle says, or is about to be removed.
        """
        wanted: dict[tuple[object, ...], NamedFile] = {}
        for one in handles_in(rows, self.columns):
            wanted.setdefault(tuple(one.handle.values()), one)
        if was is not None:
            for batch in [was] if isinstance(was, pa.RecordBatch) else was.to_batches():
                for one in handles_in(batch, self.columns):
                    wanted.pop(tuple(one.handle.values()), None)
        numbers = range(first_row, first_row + len(rows)) if places is None else places.to_pylist()
        self._look([one for key, one in wanted.items() if key not in self._known], numbers)

    def look_all(self, meta: BlockMeta, schema: pa.Schema) -> None:
        """Look at the files that a block names, as it is stored. Raises Invalid."""
        self.columns = file_columns(schema)
        wanted: dict[tuple[object, ...], NamedFile] = {}
        for one in named_by_block(self.bucket, meta, schema):
            wanted.setdefault(tuple(one.handle.values()), one)
            if len(wanted) == _AT_ONCE:
                self._look(list(wanted.values()), None)
                wanted.clear()
        self._look(list(wanted.values()), None)

    def _look(self, wanted: list[NamedFile], numbers: Sequence[int] | None) -> None:
        for problem in self.world.pool.map(self._problem, wanted):
            if problem is not None:
                one, what = problem
                row = None if numbers is None else numbers[one.row]
                where = "" if row is None else f" in row {row:,} (counted from 0)"
                raise Invalid(
                    f"column {one.column!r} names a file{where} that no row may name: {what}; "
                    "upload it with put_file, and write the row with the new handle",
                    row=row,
                )
        if len(self._known) > _KNOWN:
            self._known.clear()
        self._known.update(tuple(one.handle.values()) for one in wanted)

    def _problem(self, one: NamedFile) -> tuple[NamedFile, str] | None:
        try:
            handle = handle_of(one.handle)
            key = find_file(self.bucket, handle)
        except (Invalid, NotFound, Corrupt) as error:
            return one, str(error)
        if ulid_time_ms(self.ulid) - ulid_time_ms(handle["id"]) <= UPLOAD_TIMEOUT_S * 1000:
            return None
        if is_there(self.bucket, file_key(handle["id"], DELETION_MARK)):
            return one, f"file {handle['id']} is marked for removal, because no row named it"
        try:
            found = self.bucket.head(key).size
        except ObjectMissing:
            return one, f"the bytes of file {handle['id']} are missing"
        if found != handle["bytes"]:
            return one, f"file {handle['id']} has {found:,} bytes, not {handle['bytes']:,}"
        return None


def look_again(bucket: ReadBucket, world: World, meta: BlockMeta) -> None:
    """Look at the files that the stored rows of a new block name. Raises Invalid."""
    schema = deserialize(meta.schema)
    if file_columns(schema):
        FileLook(bucket, world, meta.ulid, ()).look_all(meta, schema)


class NoFiles:
    """Refuses rows that name files: they were not uploaded where the rows are written."""

    def __init__(self, definition: Definition) -> None:
        self._columns = columns_with_files(definition)

    def take(self, rows: pa.RecordBatch, first_row: int = 0) -> None:
        """Raise Invalid for a row that names a file."""
        for one in handles_in(rows, self._columns):
            raise Invalid(
                f"column {one.column!r} names a file in row {first_row + one.row:,} (counted from "
                "0), and a block that is built in a folder, or in a table without an index, names "
                "none: write these rows into the table, after put_file",
                row=first_row + one.row,
            )
