"""Lakes: which folders right below a URL are tables.

Rules:
- A folder is a table if it has an index, or a complete block. To ask is two small requests or
  three.
- One that does not let itself be looked at, or whose index is damaged, counts as a table: whoever
  opens it is told why, and the others go on.
- What a file system keeps for itself in the root of a disk is none.
"""

from __future__ import annotations

from blockstore.bucket import ReadBucket
from blockstore.errors import AccessDenied, Corrupt
from blockstore.index.log import exists
from blockstore.operations.unindexed import whole_block

__all__ = ["folders", "is_table", "may_be_table"]

_OF_FILE_SYSTEMS = frozenset({"lost+found"})


def folders(bucket: ReadBucket) -> list[str]:
    """The names of the folders right below, which may be tables. One LIST."""
    names = (prefix.rstrip("/") for prefix in bucket.prefixes())
    return sorted(name for name in names if name not in _OF_FILE_SYSTEMS)


def is_table(bucket: ReadBucket) -> bool:
    """Whether a table lies here. Raises Corrupt for a damaged index, and what the bucket raises."""
    return exists(bucket) or whole_block(bucket) is not None


def may_be_table(bucket: ReadBucket) -> bool:
    """Whether a table lies here, or what lies here cannot be told."""
    try:
        return is_table(bucket)
    except (AccessDenied, Corrupt):
        return True
