"""What is at a URL: a table, with an index or without, the folders of a lake, or nothing.

Rules:
- A folder is a table if it has an index, or a complete block. Finding out takes two small requests
  side by side, and for a folder without an index a listing and one more for each block.
- A folder that cannot be read, or whose index is damaged, counts as a table: opening it says why,
  and the other tables can be used.
- What a file system keeps for itself in the root of a disk is not a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import AccessDenied, Conflict, Corrupt, Invalid, NotFound, Unavailable
from blockstore.index.presence import exists, looks_for_index
from blockstore.names import BOUNDARY, FILES, INDEX, JOBS, is_ulid, meta_key
from blockstore.world import Pool, World

if TYPE_CHECKING:
    from blockstore.lifecycle.catalog import Synced

_SHOWN_FOLDERS = 5
_OF_A_TABLE = frozenset({INDEX, FILES, JOBS, BOUNDARY.partition("/")[0] + "/"})
"""Folders of a table itself, which may remain when the table is lost."""
_OF_FILE_SYSTEMS = frozenset({"lost+found"})


def folders(bucket: ReadBucket) -> list[str]:
    """The names of the folders right below, which may be tables. One LIST."""
    names = (prefix.rstrip("/") for prefix in bucket.prefixes())
    return sorted(name for name in names if name not in _OF_FILE_SYSTEMS)


def is_table(bucket: ReadBucket, pool: Pool | None = None) -> bool:
    """Whether there is a table here. Raises Corrupt for a damaged index, and what the bucket
    raises."""
    return exists(bucket, pool) or whole_block(bucket) is not None


def may_be_table(bucket: ReadBucket) -> bool:
    """Whether there is a table here, or it is not known what is here."""
    return _may_be(lambda: is_table(bucket))


def tables_among(buckets: Mapping[str, Bucket], pool: Pool) -> dict[str, Bucket]:
    """Those of several places that are tables, or of which it is not known; side by side."""
    looks = [(name, look) for name, one in buckets.items() for look in looks_for_index(one)]
    found = {name for name, _ in _true(pool, looks)}
    others = [
        (name, partial(_has_block, one)) for name, one in buckets.items() if name not in found
    ]
    found |= {name for name, _ in _true(pool, others)}
    return {name: one for name, one in buckets.items() if name in found}


def _true(pool: Pool, looks: Sequence[tuple[str, Callable[[], bool]]]) -> list[tuple[str, object]]:
    answers = pool.map(lambda one: _may_be(one[1]), looks)
    return [one for one, found in zip(looks, answers, strict=True) if found]


def _may_be(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except (AccessDenied, Corrupt):
        return True


def _has_block(bucket: ReadBucket) -> bool:
    return whole_block(bucket) is not None


def check_place(bucket: Bucket, world: World, *, index: bool) -> None:
    """Raise Conflict where there are blocks without an index: a new index would drop their rows,
    and a new definition could contradict them. Raise Invalid where a table with an index cannot
    live."""
    if exists(bucket):
        if not index:
            raise Conflict(
                f"there is already a table at {bucket.url}: open it, or choose another URL"
            )
        return  # who creates the index meets the one that is there
    whole = whole_block(bucket)
    if whole is not None and index:
        raise Conflict(
            f"{bucket.url} holds blocks ({whole} is one) and no index: a new table there would "
            "drop their rows; choose another URL, or restore the index from a copy"
        )
    if whole is not None:
        raise Conflict(
            f"{bucket.url} holds blocks ({whole} is one): open the table with discovery='list', "
            "or choose another URL"
        )
    if index:
        _check_store(bucket, world)


def _check_store(bucket: Bucket, world: World) -> None:
    """Raise Invalid on a store without create-if-absent: an entry would not have one winner there
    (3.8).

    Measured, unless the store is known to keep its conditions.
    """
    if bucket.refuses_stale_writes():
        return
    from blockstore.bucket.probe import CREATE_IF_ABSENT, Result, probe

    (finding,) = probe(bucket, world, only=CREATE_IF_ABSENT)
    if finding.result is Result.FAILED:
        raise Invalid(
            f"{bucket.url} does not support create-if-absent ({finding.detail}), so only a table "
            "without an index works there: create it with index=False (--no-index)"
        )
    if finding.result is Result.UNKNOWN:
        raise Unavailable(
            f"could not measure whether {bucket.url} supports create-if-absent "
            f"({finding.detail}): try again"
        )


def never_indexed(bucket: ReadBucket) -> bool:
    """Whether there is no boundary; where there is no entry either, the table has no index
    (3.4)."""
    return not is_there(bucket, BOUNDARY)


def whole_block(bucket: ReadBucket, names: Iterable[str] | None = None) -> str | None:
    """The ULID of a complete block, if there is one: without meta.json it is an upload that has not
    ended. ``names`` are those of the folders right below, where they are known."""
    names = folders(bucket) if names is None else names
    ulids = sorted(filter(is_ulid, names))
    return next((ulid for ulid in ulids if is_there(bucket, meta_key(ulid))), None)


def no_table(bucket: ReadBucket, synced: Synced) -> Exception:
    damaged = {ulid: one.damage for ulid, one in synced.found.items() if one.damage is not None}
    if damaged:
        ulid, damage = min(damaged.items())
        return Corrupt(
            f"no block of {bucket.url} can be read, so the table has no definition: {ulid}: "
            f"{damage}; restore one from a copy"
        )
    nothing = f"no table at {bucket.url}: found neither an index nor a complete block"
    below = _folders(bucket)
    if below:
        some = ", ".join(below[:_SHOWN_FOLDERS]) + (", …" if len(below) > _SHOWN_FOLDERS else "")
        return NotFound(
            f"{nothing}; directly below it are {some}: name a table among them ('blockstore ls "
            f"{bucket.url}' lists them), or check the URL"
        )
    return NotFound(
        f"{nothing}; create one with blockstore.create(…) or 'blockstore create URL --schema …', "
        "or check the URL"
    )


def _folders(bucket: ReadBucket) -> list[str]:
    """The folders that may be tables, were this a lake."""
    names = (prefix for prefix in bucket.prefixes() if prefix not in _OF_A_TABLE)
    return sorted(name for prefix in names if not is_ulid(name := prefix.rstrip("/")))


def what_to_do(bucket: Bucket) -> str:
    """What to do about a place without an index."""
    whole = whole_block(bucket)
    if whole is not None:
        return f", and blocks ({whole} is one): open it with discovery='list', or restore its index"
    return (
        "; create one with blockstore.create(…) or 'blockstore create URL --schema …', or check "
        "the URL"
    )
