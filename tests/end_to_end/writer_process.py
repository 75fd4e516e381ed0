"""One writer of many, as a process of its own: appends blocks and reports what the store answered.

    python writer_process.py URL WRITER BLOCKS ROWS

Prints one JSON line: the races for an index entry that it lost, the entries it created, and any
error it was shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from blockstore.bucket import open_bucket
from blockstore.errors import AlreadyExists, BlockstoreError
from blockstore.names import parse_entry
from blockstore.table import Table
from blockstore.world import World


class CountingRaces:
    """Counts how many index entries were created and how many creations lost."""

    def __init__(self, bucket: Any) -> None:
        self._bucket = bucket
        self.won = 0
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    def put_if_absent(self, key: str, data: bytes) -> str:
        try:
            etag: str = self._bucket.put_if_absent(key, data)
        except AlreadyExists:
            self.lost += parse_entry(key) is not None
            raise
        self.won += parse_entry(key) is not None
        return etag


def rows(writer: int, block: int, count: int) -> pa.Table:
    """Rows that name themselves, so that a lost or doubled one is seen."""
    return pa.table(
        {"writer": [writer] * count, "block": [block] * count, "row": list(range(count))}
    )


def main(arguments: list[str]) -> Iterator[str]:
    url, writer, blocks, count = arguments[0], *map(int, arguments[1:])
    world = World.real()
    bucket = CountingRaces(open_bucket(url, world))
    table = Table.open_bucket(bucket, world)  # type: ignore[arg-type]
    batches = [rows(writer, block, count) for block in range(blocks)]
    errors, unpublished = [], 0
    yield "ready"
    sys.stdin.readline()
    for batch in batches:
        try:
            unpublished += not table.append(batch).published
        except BlockstoreError as error:
            errors.append(f"{type(error).__name__}: {error}")
    yield json.dumps(
        {"lost": bucket.lost, "won": bucket.won, "unpublished": unpublished, "errors": errors}
    )


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print(line, flush=True)
