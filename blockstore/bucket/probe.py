"""Measures which promises of ``api.py`` a store keeps: those that the protocols need (3.8).

Servers that ignore If-None-Match and overwrite are common, so every promise is tested. The probe
writes only below ``_probe-<ulid>/`` and removes what it wrote, also when it fails midway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from blockstore.bucket.api import Bucket, NotModified
from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    BlockstoreError,
    Contended,
    Invalid,
    PreconditionFailed,
    Throttled,
    Unanswered,
)
from blockstore.world import World

READ_AFTER_WRITE = "read-after-write"

CREATE_IF_ABSENT = "create-if-absent"
"""The promise without which there is no index."""

IF_MATCH = "if-match"
"""The promise without which the boundary cannot advance."""

_CLIENTS = 16
_ROUNDS = 3
_CLOCK_SLACK_MS = 5 * 60 * 1000


class Result(StrEnum):
    """The verdict on one promise."""

    OK = "ok"
    WARNING = "warning"
    """Not kept; everything still works, at some cost."""
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One promise: its name, whether the store keeps it, what was measured, and what follows."""

    name: str
    result: Result
    detail: str
    consequence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    kept: bool | None
    detail: str


def probe(bucket: Bucket, world: World, *, only: str | None = None) -> tuple[Finding, ...]:
    """Return a Finding for each promise that a table needs, or for the promise ``only``.

    Raises the error of the first write if nothing can be written.
    """
    under = f"_probe-{world.ids.ulid()}"
    wanted = [promise for promise in _PROMISES if only in (None, promise.name)]
    try:
        bucket.put(f"{under}/first", b"first")
        return tuple(_look(promise, bucket, world, under) for promise in wanted)
    finally:
        bucket.delete([info.key for info in bucket.list(f"{under}/")])


def verdict(findings: Sequence[Finding]) -> str:
    """Return, as a sentence, which kinds of tables work on a store with these findings."""
    broken = {one.name for one in findings if one.result is Result.FAILED}
    unknown = {one.name for one in findings if one.result is Result.UNKNOWN}
    if broken & {CREATE_IF_ABSENT, READ_AFTER_WRITE}:
        return (
            "Only tables without an index work here: create them with index=False (--no-index), "
            "consistency = eventual."
        )
    if unknown & {CREATE_IF_ABSENT, READ_AFTER_WRITE}:
        return "It could not be measured whether tables with an index work here: measure again."
    if IF_MATCH in broken:
        return (
            "Tables with an index work here, in degraded mode: dropped blocks and old index "
            "entries are never removed."
        )
    if broken:
        return "Tables with an index work here, with the restrictions named above."
    return "Tables with and without an index work here."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    name: str
    look: Callable[[Bucket, World, str], _Seen]
    kept: str
    broken: str
    broken_is: Result = Result.FAILED


def _look(promise: _Promise, bucket: Bucket, world: World, under: str) -> Finding:
    try:
        seen = promise.look(bucket, world, under)
    except Invalid as error:
        denied = isinstance(error, AccessDenied)
        seen = _Seen(
            kept=None if denied else False, detail=f"the store refuses the request: {error}"
        )
    except BlockstoreError as error:
        seen = _Seen(kept=None, detail=f"could not be measured: {error}")
    if seen.kept is None:
        result, consequence = (
            Result.UNKNOWN,
            f"Measure again; until then assume the worse: {promise.broken}",
        )
    elif seen.kept:
        result, consequence = Result.OK, promise.kept
    else:
        result, consequence = promise.broken_is, promise.broken
    return Finding(name=promise.name, result=result, detail=seen.detail, consequence=consequence)


def _read_after_write(bucket: Bucket, world: World, under: str) -> _Seen:
    key = f"{under}/read"
    stale = 0
    for number in range(10):
        data = b"%d" % number
        bucket.put(key, data)
        stale += bucket.get(key).data != data
    return _Seen(kept=stale == 0, detail=f"{stale} of 10 reads returned an older object")


def _list_after_write(bucket: Bucket, world: World, under: str) -> _Seen:
    missed = 0
    for number in range(5):
        key = f"{under}/list/{number}"
        bucket.put(key, b"")
        missed += key not in {info.key for info in bucket.list(f"{under}/list/")}
    for number in range(5):
        key = f"{under}/list/{number}"
        bucket.delete([key])
        missed += key in {info.key for info in bucket.list(f"{under}/list/")}
    return _Seen(
        kept=missed == 0, detail=f"{missed} of 10 listings lagged behind a write or a delete"
    )


def _create_if_absent(bucket: Bucket, world: World, under: str) -> _Seen:
    """Let 16 clients create one key at once, in rounds: each time exactly one may succeed."""
    winners = []
    for round_ in range(_ROUNDS):
        key = f"{under}/race/{round_}"

        def create(client: int, key: str = key) -> bool | None:
            return _won(lambda: bucket.put_if_absent(key, b"%d" % client))

        results = world.pool.map(create, range(_CLIENTS))
        if None in results:
            return _Seen(kept=None, detail="a client got no response, so winners cannot be counted")
        winners.append(results.count(True))
        if winners[-1] == 1 and bucket.get(key).data != b"%d" % results.index(True):
            return _Seen(
                kept=False, detail="a client that was refused had overwritten the winner's object"
            )
    counted = ", ".join(map(str, winners))
    return _Seen(
        kept=set(winners) == {1},
        detail=f"winners among {_CLIENTS} clients, by round: {counted} (1 each is right)",
    )


def _won(write: Callable[[], str]) -> bool | None:
    """Return whether a conditional write was applied; None where that is not known."""
    for _ in range(10):
        try:
            write()
        except (AlreadyExists, PreconditionFailed):
            return False
        except (Contended, Throttled):
            continue  # not applied: the same may be sent again
        except Unanswered:
            return None
        return True
    return None


def _compare_and_set(bucket: Bucket, world: World, under: str) -> _Seen:
    key = f"{under}/compare"
    first = bucket.put_if_absent(key, b"0")
    try:
        second = bucket.put_if_match(key, b"1", first)
    except PreconditionFailed:
        return _Seen(kept=False, detail="a write with the present ETag was refused")
    for etag, what in ((first, "an old ETag"), ("0" * len(second), "an unknown ETag")):
        if _won(lambda etag=etag: bucket.put_if_match(key, b"2", etag)) is not False:  # type: ignore[misc]
            return _Seen(kept=False, detail=f"a write with {what} was not refused")
    if _won(lambda: bucket.put_if_match(f"{under}/nothing", b"2", second)) is not False:
        return _Seen(kept=False, detail="a write to a missing object was not refused")
    if bucket.get(key).data != b"1":
        return _Seen(kept=False, detail="a write that was refused changed the object")
    return _raced_compare_and_set(bucket, world, key, second)


def _raced_compare_and_set(bucket: Bucket, world: World, key: str, etag: str) -> _Seen:
    """Let 16 clients replace one object at once: exactly one may succeed.

    A write whose response was lost counts as the winner if the object holds it.
    """

    def replace(client: int) -> bool | None:
        return _won(lambda: bucket.put_if_match(key, b"client %d" % client, etag))

    results = world.pool.map(replace, range(_CLIENTS))
    there = bucket.get(key).data
    won = [client for client, result in enumerate(results) if result]
    open_ = [client for client, result in enumerate(results) if result is None]
    right = len(won) <= 1 and there in {b"client %d" % client for client in (won or open_)}
    lost = f", {len(open_)} unanswered" if open_ else ""
    return _Seen(
        kept=right,
        detail=f"stale writes are refused; {len(won)} of {_CLIENTS} racing clients won{lost}",
    )


def _not_modified(bucket: Bucket, world: World, under: str) -> _Seen:
    key = f"{under}/first"
    etag = bucket.get(key).etag
    try:
        bucket.get(key, if_none_match=etag)
    except NotModified:
        return _Seen(kept=True, detail="a GET of the known ETag returns 304")
    return _Seen(kept=False, detail="a GET of the known ETag returns the complete object")


def _modified_times(bucket: Bucket, world: World, under: str) -> _Seen:
    bucket.put(f"{under}/time", b"")
    now_ms = bucket.now_ms()
    ages = [now_ms - info.modified_ms for info in bucket.list(f"{under}/time")]
    if not ages:
        return _Seen(kept=None, detail="the listing did not show the object")
    return _Seen(
        kept=abs(ages[0]) < _CLOCK_SLACK_MS,
        detail=f"a new object is {ages[0] / 1000:.1f} s old by the store's own clock, "
        f"which is {(now_ms - world.clock.now_ms()) / 1000:+.1f} s from ours",
    )


def _ordered_listings(bucket: Bucket, world: World, under: str) -> _Seen:
    for name in ("a/b", "a-b", "a.b", "ab", "a/c/d", "é"):
        bucket.put(f"{under}/order/{name}", b"")
    found = [info.key.encode() for info in bucket.list(f"{under}/order/")]
    if len(found) != 6:
        return _Seen(kept=None, detail=f"the listing showed {len(found)} of 6 objects")
    ordered = all(one < other for one, other in pairwise(found))
    return _Seen(
        kept=ordered,
        detail="in the order of UTF-8 bytes" if ordered else "in another order than UTF-8 bytes",
    )


def _plain_deletes(bucket: Bucket, world: World, under: str) -> _Seen:
    versions = bucket.keeps_versions()
    if versions is None:
        return _Seen(kept=None, detail="the store does not say whether it keeps versions")
    kept = (
        "the bucket keeps the versions of deleted objects"
        if versions
        else "a delete frees the space"
    )
    return _Seen(kept=not versions, detail=kept)


_PROMISES = (
    _Promise(
        name=READ_AFTER_WRITE,
        look=_read_after_write,
        kept="Readers see every acknowledged write.",
        broken="The index is unsafe here: use tables without one, with consistency = eventual.",
    ),
    _Promise(
        name="list-after-write",
        look=_list_after_write,
        kept="Uploads are checked and cold reads are complete at once.",
        broken="Set consistency = eventual: a block then waits sync_delay (at least 5 min) before "
        "it is seen.",
    ),
    _Promise(
        name=CREATE_IF_ABSENT,
        look=_create_if_absent,
        kept="Tables with an index work: every commit has one winner.",
        broken="Only tables without an index work here: no versions, no transactions, no "
        "exactly-once jobs.",
    ),
    _Promise(
        name=IF_MATCH,
        look=_compare_and_set,
        kept="The boundary can advance, so old index entries and dropped blocks are removed.",
        broken="The boundary cannot advance: index entries, and blocks that the index dropped, "
        "are kept forever.",
    ),
    _Promise(
        name="if-none-match GET",
        look=_not_modified,
        kept="A poll's look at the boundary transfers nothing.",
        broken="Polls are correct, but each transfers the boundary again.",
        broken_is=Result.WARNING,
    ),
    _Promise(
        name="LastModified in listings",
        look=_modified_times,
        kept="Ages are measured by the store's clock.",
        broken="Ages cannot be trusted here: do not run a compactor that removes.",
    ),
    _Promise(
        name="ordered listings",
        look=_ordered_listings,
        kept="Listings come sorted.",
        broken="Nothing is lost: callers that need an order sort.",
        broken_is=Result.WARNING,
    ),
    _Promise(
        name="unversioned bucket",
        look=_plain_deletes,
        kept="Removed objects no longer cost anything.",
        broken="Removed blocks stay as versions, which cost space, and each merge adds the size of "
        "what it replaced: add a lifecycle rule that expires noncurrent versions.",
        broken_is=Result.WARNING,
    ),
)
