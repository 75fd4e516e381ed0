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
from blockstore.bucket.url import last_part, without_options
from blockstore.index.presence import exists
from blockstore.names import META
from blockstore.operations.not_yet import NotYet
from blockstore.operations.place import folders, tables_among, whole_block
from blockstore.world import Pool


class Place:
    """One URL; for one caller at a time."""

    def __init__(self, bucket: Bucket, pool: Pool) -> None:
        self.bucket = bucket
        self._pool = pool
        self._is_table = False
        self._is_lake = False
        self._not_yet = NotYet()

    def tables(self, known: frozenset[str]) -> tuple[dict[str, Bucket], frozenset[str]]:
        """The tables that are not in ``known``, by name, and all listed names. One listing, and at
        most three small requests for each new folder, those of all folders side by side."""
        if self._is_table or (not self._is_lake and exists(self.bucket, self._pool)):
            return self._one_table(known)
        listed = frozenset(folders(self.bucket))
        if not self._is_lake and whole_block(self.bucket, listed) is not None:
            return self._one_table(known)
        due = self._not_yet.due(sorted(listed - known))
        new = tables_among({name: Prefixed(self.bucket, name) for name in due}, self._pool)
        self._not_yet.checked(due, new)
        self._is_lake = self._is_lake or bool(new)
        return new, listed

    def _one_table(self, known: frozenset[str]) -> tuple[dict[str, Bucket], frozenset[str]]:
        self._is_table = True
        name = table_name(self.bucket)
        return ({} if name in known else {name: self.bucket}), frozenset({name})


def table_name(bucket: Bucket) -> str:
    """The last part of the URL's path: the table's name in SQL."""
    return last_part(bucket.url)


def is_below(bucket: Bucket, place: Bucket) -> bool:
    """Whether a table's bucket is at a place, or directly below it."""
    base = without_options(place.url)
    url = bucket.url.partition("?")[0]
    return url == base or url.startswith(f"{base}/")


def local_folder(bucket: Bucket) -> str | None:
    """The folder of a bucket with local files; None for others."""
    path = bucket.path_of(META)
    return None if path is None else path.removesuffix(META).rstrip("/")
