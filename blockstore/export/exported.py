"""What an export made, and how its objects are written: if they are absent."""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.bucket.api import Bucket
from blockstore.errors import AlreadyExists


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One version of a table, for other engines."""

    version: int
    metadata: str
    """The URL that an engine takes: of Iceberg's document, or of a Delta table."""
    files: int
    deletes: int
    """The rows of these files that are not shown."""
    objects: frozenset[str]
    """The keys of all objects that the export consists of, but for hints."""
    written: int
    """Those that were not there before."""
    document: bytes = b""
    """Iceberg's document itself, JSON."""


class Sink:
    """Writes the objects of one export."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.keys: set[str] = set()
        self.written = 0

    def put(self, key: str, data: bytes) -> None:
        """Write an object if it is absent: its name follows from what it holds."""
        self.keys.add(key)
        try:
            self._bucket.put_if_absent(key, data)
            self.written += 1
        except AlreadyExists:
            return
