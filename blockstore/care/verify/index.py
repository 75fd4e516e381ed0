"""Check an index: the boundary, the entries above it, the checkpoints, and the versions of tags.

Pure, except for the tags.

Rules (protocol 3.4): the entries above the boundary are contiguous, including the first; the latest
entry is never deleted, so the boundary is below it; a checkpoint at or above the boundary equals
the fold; a tag's checkpoint exists. Void entries are notes: they do not count, and their writers
were never acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator

from blockstore.bucket.api import ReadBucket
from blockstore.care.finding import Check, Finding, Severity
from blockstore.care.survey import Survey, read_checkpoint
from blockstore.errors import Corrupt
from blockstore.names import BOUNDARY, INDEX, checkpoint_key, entry_key
from blockstore.world import World


def check_index(found: Survey, url: str) -> Iterator[Finding]:
    """Report what is wrong with the index itself."""
    if not found.indexed:
        return
    yield from _boundary(found, url)
    yield from _entries(found, url)
    yield from _void(found)
    yield from _checkpoints(found, url)


def check_tags(bucket: ReadBucket, world: World, found: Survey, url: str) -> Iterator[Finding]:
    """Report tags whose version cannot be read."""
    if found.state is None:
        return
    tags = sorted(found.state.tags.items())
    for (name, version), problem in zip(
        tags, world.pool.map(lambda tag: _unreadable(bucket, tag[1]), tags), strict=True
    ):
        if problem is not None:
            kept = found.boundary is not None and version > found.boundary
            yield Finding(
                severity=Severity.ERROR,
                check=Check.TAG,
                object=checkpoint_key(version),
                what=f"tag {name!r} keeps version {version}, whose checkpoint cannot be read: "
                f"{problem}",
                fix=f"blockstore repair {url}"
                if kept
                else f"restore it from a copy, or blockstore untag {url} {name}",
            )


def _boundary(found: Survey, url: str) -> Iterator[Finding]:
    if found.lost is not None:
        yield _index_error(
            Check.BOUNDARY,
            BOUNDARY,
            f"the boundary cannot be read: {found.lost}",
            f"stop all writers, then blockstore index rebuild {url}",
        )
    elif not found.entries:
        what = (
            f"the boundary is {found.boundary} and there is no entry above it, expected entry "
            f"{(found.boundary or 0) + 1}"
        )
        yield _index_error(
            Check.ENTRY, INDEX, what, f"stop all writers, then blockstore index rebuild {url}"
        )


def _entries(found: Survey, url: str) -> Iterator[Finding]:
    newest = found.state.version if found.state is not None else 0
    for first, last in found.missing:
        named = entry_key(first) if first == last else f"{entry_key(first)} to {entry_key(last)}"
        yield _index_error(
            Check.ENTRY,
            entry_key(first),
            f"{named} missing above the boundary"
            + (f" {found.boundary}" if found.boundary is not None else ""),
            _entry_fix(first, newest, url)
            + "; if the table was restored from a copy while writers ran, blockstore repair "
            f"{url} --stale-entry {last + 1}",
        )
    if found.entries and found.checkpoints and found.checkpoints[-1] > found.entries[-1]:
        lost = found.checkpoints[-1]
        what = (
            f"{entry_key(lost)} is missing although its checkpoint exists, and the latest entry is "
            "never deleted"
        )
        fix = _entry_fix(lost, newest, url)
        fix += (
            f"; if the table was restored from a copy while writers ran, {checkpoint_key(lost)} is "
            "older than the copy: delete it"
        )
        yield _index_error(Check.ENTRY, entry_key(lost), what, fix)
    for entry, problem in sorted(found.damaged.items()):
        yield _index_error(Check.ENTRY, entry_key(entry), problem, _entry_fix(entry, newest, url))


def _void(found: Survey) -> Iterator[Finding]:
    for entry in found.void:
        blocks = ", ".join(block.ulid for block in entry.add)
        yield Finding(
            severity=Severity.NOTE,
            check=Check.ENTRY,
            object=entry_key(entry.id),
            what=f"{entry.operation} by {entry.by or 'an unnamed program'} (commit "
            f"{entry.commit}) was written on top of another history and is void"
            + (f": it does not add block {blocks} to the table" if blocks else ""),
            fix="nothing: it was never acknowledged, and it is removed when the index is collected",
        )


def _entry_fix(entry: int, newest: int, url: str) -> str:
    if entry <= newest:
        return (
            "restore it from a copy; until it is collected the versions around it cannot be read, "
            "but newer ones can"
        )
    return f"restore it from a copy, or stop all writers, then blockstore index rebuild {url}"


def _checkpoints(found: Survey, url: str) -> Iterator[Finding]:
    for version, problem in sorted(found.bad_checkpoints.items()):
        yield _index_error(
            Check.CHECKPOINT, checkpoint_key(version), problem, _checkpoint_fix(found, version, url)
        )
    if found.boundary and found.entries and found.state is None and not found.bad_checkpoints:
        yield _index_error(
            Check.CHECKPOINT,
            checkpoint_key(found.boundary),
            f"there is no checkpoint at or above the boundary {found.boundary}",
            f"restore it from a copy, or stop all writers, then blockstore index rebuild {url}",
        )


def _checkpoint_fix(found: Survey, version: int, url: str) -> str:
    if version in found.folded:
        return f"blockstore repair {url}"
    if version != found.checkpoints[-1]:
        return (
            "restore it from a copy; until it is collected the versions after it, up to the next "
            "one, cannot be read"
        )
    return f"restore it from a copy, or stop all writers, then blockstore index rebuild {url}"


def _index_error(check: Check, key: str, what: str, fix: str) -> Finding:
    return Finding(severity=Severity.ERROR, check=check, object=key, what=what, fix=fix)


def _unreadable(bucket: ReadBucket, version: int) -> str | None:
    try:
        read_checkpoint(bucket, version)
    except Corrupt as error:
        return str(error)
    return None
