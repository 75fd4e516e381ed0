"""A folder of finished blocks on a device: what waits there to be shipped.

Rules:
- A block is finished once its directory holds a meta.json; a directory without one is still being
  written, and is left alone.
- Whatever cannot be read here, or contradicts its meta.json, is ``Corrupt`` and names the block: a
  device's bad disk is no fault of the store, and no reason to stop.
- A folder that holds an index is a table and no place to ship from.
- What is taken away here (only when asked, and only what was shipped) goes meta.json first, so that
  a block half gone is not a finished one.
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

__all__ = ["FinishedBlocks"]


class FinishedBlocks:
    """The finished blocks of one folder."""

    def __init__(self, folder: Bucket) -> None:
        self.bucket = folder
        self.reader = _Suspect(folder)
        """The folder for whoever reads blocks out of it."""

    def check(self) -> None:
        """Raise NotFound where there is no folder, Invalid where it is a table with an index."""
        inside = self.bucket.path_of(SHIPPER_STATE)
        if inside is not None and not os.path.isdir(os.path.dirname(inside)):
            raise NotFound(
                f"there is no folder {os.path.dirname(inside)}: build blocks in it, or check the "
                "path"
            )
        if next(iter(self.bucket.list(INDEX)), None) or next(
            iter(self.bucket.list(BOUNDARY)), None
        ):
            raise Invalid(
                f"{self.bucket.url} is a table with an index, expected a folder of finished "
                "blocks: copy a table with "
                "'blockstore replicate FROM TO'"
            )

    def directories(self) -> Mapping[str, Directory]:
        """Every block's directory, finished or not, the oldest first."""
        return list_directories(self.bucket).directories

    def load(self, directory: Directory) -> BlockMeta:
        """A finished block's meta.

        Raises Corrupt where it, or the size of a file, is not what it must be.
        """
        meta = load_meta(self.reader, directory.ulid)
        difference = directory.difference(meta)
        if difference is not None:
            raise Corrupt(
                f"block {directory.ulid}: {difference} in {self.bucket.url}: restore it from a "
                "copy, or build it again"
            )
        return meta

    def verify(self, meta: BlockMeta, ulid: str) -> None:
        """Raise Corrupt unless every file of the block in directory ``ulid`` has the hash that its
        meta.json says."""
        for file in meta.files:
            verify_file(self.reader, ulid, file)

    def take_away(self, directory: Directory) -> None:
        """Delete a block that was shipped."""
        self.bucket.delete([meta_key(directory.ulid)])
        self.bucket.delete(
            [object_key(directory.ulid, path) for path in directory.objects if path != META]
        )


class _Suspect(ReadOnly):
    """A folder whose every error is a damaged block."""

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
