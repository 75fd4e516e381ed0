"""The tables under one URL: the table at the URL, or those in the folders directly under it.

Rules:
- A URL is a table once an index or a complete block was found there. It is a lake once a table was
  found in a folder under it. Neither changes later.
- A folder without a table is checked again, less and less often: a table may appear in it.
- A table whose folder is no longer listed is gone only if a look confirms it: the listings of some
  stores lag.
"""

from __future__ import annotations

from blockstore.bucket import Bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.url import last_part
from blockstore.index.presence import exists
from blockstore.operations.place import folders, tables_among, whole_block
from blockstore.world import Pool

_RARELY = 32


class Place:
    """One URL; for one caller at a time."""

    def __init__(self, bucket: Bucket, pool: Pool) -> None:
        self.bucket = bucket
        self._pool = pool
        self._is_table = False
        self._is_lake = False
        self._not_yet: dict[str, tuple[int, int]] = {}
        """Folders without a table: the rounds between two checks, and the rounds left."""

    def tables(self, known: frozenset[str]) -> tuple[dict[str, Bucket], frozenset[str]]:
        """The tables that are not in ``known``, by name, and all listed names. One listing, and at
        most three small requests for each new folder, those of all folders side by side."""
        if self._is_table or (not self._is_lake and exists(self.bucket, self._pool)):
            return self._one_table(known)
        listed = frozenset(folders(self.bucket))
        if not self._is_lake and whole_block(self.bucket, listed) is not None:
            return self._one_table(known)
        due = {name for name in sorted(listed - known) if self._is_due(name)}
        new = tables_among({name: Prefixed(self.bucket, name) for name in sorted(due)}, self._pool)
        for name in new:
            self._not_yet.pop(name, None)
            self._is_lake = True
        self._not_yet = {name: wait for name, wait in self._not_yet.items() if name in listed}
        return new, listed

    def _one_table(self, known: frozenset[str]) -> tuple[dict[str, Bucket], frozenset[str]]:
        self._is_table = True
        name = table_name(self.bucket)
        return ({} if name in known else {name: self.bucket}), frozenset({name})

    def _is_due(self, name: str) -> bool:
        wait, left = self._not_yet.get(name, (0, 0))
        if left > 0:
            self._not_yet[name] = (wait, left - 1)
            return False
        longer = min(max(1, 2 * wait), _RARELY) if name in self._not_yet else 0
        self._not_yet[name] = (longer, longer)
        return True


def table_name(bucket: Bucket) -> str:
    """The last part of the URL's path: the table's name in SQL."""
    return last_part(bucket.url)
