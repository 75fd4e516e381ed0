"""The files that the blocks of a replica name: copied before the block that names them is complete.

Rules:
- The bytes are compared with the handle while they are copied; ``file.json`` goes last. So a file
  of the replica is complete, or not there.
- A file is copied once. Files that no block names are not copied.
- A file that is missing at the source, although the block that names it is there, is Corrupt.
"""

from __future__ import annotations

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import Corrupt, NotFound, ObjectMissing
from blockstore.files.named import named_by_block
from blockstore.files.reading import checked_pieces, find_file
from blockstore.format.block import BlockMeta
from blockstore.format.file_handle import FileHandle, file_columns, handle_of
from blockstore.format.schema import deserialize
from blockstore.names import FILE_RECORD, FILES, file_key, meta_key, split_file_key
from blockstore.world import World


class FileCopier:
    """Copies files of one source to one target; remembers those that are there."""

    def __init__(self, source: ReadBucket, target: Bucket, world: World) -> None:
        self._source = source
        self._target = target
        self._world = world
        self._there: set[str] | None = None
        self.bytes = 0

    def complete(self, meta: BlockMeta) -> bool:
        """Make each file complete that a block names; False if the block is no longer there. Raises
        Corrupt, with the file's id, for a file that is missing or damaged."""
        schema = deserialize(meta.schema)
        if not file_columns(schema):
            return True
        there = self._listed()
        try:
            cells = named_by_block(self._source, meta, schema)
            named = {str(one.handle["id"]): one.handle for one in cells}
            wanted = [handle_of(handle) for file, handle in named.items() if file not in there]
            self._world.pool.map(self._copy, wanted)
        except (NotFound, ObjectMissing) as error:
            if not is_there(self._source, meta_key(meta.ulid)):
                return False
            raise Corrupt(
                f"block {meta.ulid} names a file that is missing ({error}): restore it from a copy"
            ) from None
        there.update(named)
        return True

    def _listed(self) -> set[str]:
        if self._there is None:
            places = (split_file_key(info.key) for info in self._target.list(FILES))
            self._there = {place[0] for place in places if place and place[1] == FILE_RECORD}
        return self._there

    def _copy(self, handle: FileHandle) -> None:
        key = find_file(self._source, handle)
        writer = self._target.writer(key)
        try:
            for piece in checked_pieces(self._source, handle, key):
                writer.write(piece)
            writer.close()
        except BaseException:
            writer.abort()
            raise
        record = file_key(handle["id"], FILE_RECORD)
        self._target.put(record, self._source.get(record).data)
        self.bytes += handle["bytes"]
