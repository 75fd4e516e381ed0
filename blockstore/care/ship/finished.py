"""A folder of finished blocks on a device, waiting to be shipped.

Rules:
- A block is finished when its directory has a meta.json; a directory without one is still being
  written, and is not touched.
- Anything that cannot be read here, or contradicts its meta.json, raises ``Corrupt`` with the
  block's name: a device's bad disk is not an error of the store, and not a reason to stop.
- A folder with an index is a table, and cannot be shipped from.
- A block is deleted here only if that was requested and it was shipped. Its meta.json is deleted
  first, so that a partly deleted block is not a finished one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from blockstore.bucket.api import Bucket, Object
from blockstore.bucket.wrapper import ReadOnly
from blockstore.care.transfer import verify_file
from blockstore.errors import BlockstoreError, Corrupt, Invalid, NotFound, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.meta import load_meta
from blockstore.lifecycle.listing import Directory, list_directories
from blockstore.names import BOUNDARY, INDEX, META, SHIPPER_STATE, meta_key, object_key


class FinishedBlocks:
    """The finished blocks of one folder."""

    def __init__(self, folder: Bucket) -> None:
        self.bucket = folder
        self.reader = _Suspect(folder)
        """The folder for code that reads its blocks: every error is a damaged block."""

    def check(self) -> None:
        """Raise NotFound if there is no folder, Invalid if it is a table with an index."""
        inside = self.bucket.path_of(SHIPPER_STATE)
        if inside is not None and not os.path.isdir(os.path.dirname(inside)):
            raise NotFound(
                f"there is no folder {os.path.dirname(inside)}: check the path, or build blocks "
                "there first"
            )
        if next(iter(self.bucket.list(INDEX)), None) or next(
            iter(self.bucket.list(BOUNDARY)), None
        ):
            raise Invalid(
                f"{self.bucket.url} is a table with an index, expected a folder of finished "
                "blocks: copy a table with 'blockstore replicate SOURCE TARGET'"
            )

    def directories(self) -> Mapping[str, Directory]:
        """List every block's directory, finished or not, the oldest first."""
        return list_directories(self.bucket).directories

    def load(self, directory: Directory) -> BlockMeta:
        """Load a finished block's meta.

        Raises Corrupt if it is damaged, or if a file is missing or has another size.
        """
        meta = load_meta(self.reader, directory.ulid)
        difference = directory.difference(meta)
        if difference is not None:
            raise Corrupt(
                f"block {directory.ulid} in {self.bucket.url}: {difference}: restore it from a "
                "copy, or build it again"
            )
        return meta

    def verify(self, meta: BlockMeta, ulid: str) -> None:
        """Raise Corrupt unless every file of block ``ulid`` has the hash of its meta.json."""
        for file in meta.files:
            verify_file(self.reader, ulid, file)

    def delete(self, directory: Directory) -> None:
        """Delete a block that was shipped."""
        self.bucket.delete([meta_key(directory.ulid)])
        self.bucket.delete(
            [object_key(directory.ulid, path) for path in directory.objects if path != META]
        )


class _Suspect(ReadOnly):
    """A folder whose errors are all raised as Corrupt, for a damaged block."""

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        try:
            return super().get(key, if_none_match=if_none_match)
        except BlockstoreError as error:
            raise _damaged(key, error) from error

    def get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            return super().get_range(key, start, length)
        except BlockstoreError as error:
            raise _damaged(key, error) from error


def _damaged(key: str, error: BlockstoreError) -> Corrupt:
    ulid, _, path = key.partition("/")
    found = "is missing" if isinstance(error, ObjectMissing) else f"cannot be read ({error})"
    return Corrupt(f"block {ulid}: {path} {found}: restore it from a copy, or build it again")
