"""What is said of a chunk that cannot be read (R11): the block is named, and rows are never
missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.unreadable import UNREADABLE
from blockstore.scan.chunk import ScanChunk


@contextmanager
def named(chunk: ScanChunk) -> Iterator[None]:
    """Name the block of a chunk that is missing or damaged."""
    try:
        yield
    except ObjectMissing as error:
        raise ObjectMissing(
            f"block {chunk.block} cannot be read: {chunk.file.path} is missing ({error}); take a "
            "newer snapshot; if that names the block too, open the table again (it may have been "
            "put back from a copy) and run blockstore verify"
        ) from error
    except Corrupt as error:
        raise Corrupt(f"block {chunk.block} cannot be read: {error}") from error


@contextmanager
def readable(key: str) -> Iterator[None]:
    """Raise Corrupt for a chunk that Arrow cannot read."""
    try:
        yield
    except UNREADABLE as error:
        raise Corrupt(
            f"chunk {key} cannot be read as Parquet ({error}): restore it from a copy"
        ) from error
