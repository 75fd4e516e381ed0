"""Tags: names that keep a version readable for as long as they are set (protocol 3.5).

Rules:
- The checkpoint of the version is written first, from a checked state; then the tag is committed;
  then the boundary is read as in step 5 of a commit. A version above it is kept: a collector that
  comes later reads the tag before it deletes.
- A version at or below it is kept only if a tag pins it that has been set for half a
  ``delete_delay`` by the store's clock, its checkpoint is there, and every block of it, looked at
  after the tag's commit, is unmarked and complete. Otherwise the tag is removed again:
  ``VersionExpired``. A younger pin proves nothing: a process that decided to delete before it was
  committed may still be deleting (``specs/tags.pml``, PIN_OF_ANY_AGE).
- A tag never moves. Tagging the same version again changes nothing, and checks again, itself no
  proof before it is as old: a tag whose process died before its check is reported so, and a person
  removes it. A name is free after ``untag``.
- Names that begin as those by which a restore pins its version are not given to others: the next
  restore would take such a tag for one that was left behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from blockstore.bucket.api import writable
from blockstore.errors import (
    BlockstoreError,
    Corrupt,
    Indeterminate,
    Invalid,
    NotFound,
    Unavailable,
    VersionExpired,
)
from blockstore.format.block import BlockMeta, Job
from blockstore.format.features import TREE
from blockstore.format.texts import check_text
from blockstore.ids import ulid_time_ms
from blockstore.index.checkpoint import encode_checkpoint, holds_state
from blockstore.index.checkpoint_name import how_to_replace_checkpoint
from blockstore.index.history import History
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.names import checkpoint_key, entry_key, is_ulid
from blockstore.world import World

Look = Callable[[Sequence[BlockMeta]], str | None]
"""Looks at blocks in the bucket: why one of them is not complete (marked, or an object missing), or
None."""

MAX_TAG = 128
TEMPORARY = "_restore_"
"""How the names of the tags begin that hold a version while it is restored."""

_MAX_MESSAGE = 10_000
_ABANDONED_MS = 3_600_000


def check_tag(name: object) -> None:
    """Raise Invalid unless ``name`` may be a tag: a number would be taken for a version, a slash
    for a path."""
    check_text("the tag", name, limit=MAX_TAG)
    assert isinstance(name, str)
    if not name or name != name.strip() or not name.isprintable() or "/" in name or name.isdigit():
        raise Invalid(
            f"tag {name!r} cannot be a name, expected 1 to {MAX_TAG} printable characters without "
            "'/', not only digits, and no space at either end"
        )


def check_free(name: object) -> None:
    """Raise Invalid for a name that is kept for the tags of restores."""
    if isinstance(name, str) and name.startswith(TEMPORARY):
        raise Invalid(
            f"tag {name!r} begins with {TEMPORARY}, which is reserved for the tags of restores: "
            "choose another name"
        )


def tag(
    log: Log,
    world: World,
    name: str,
    version: int | None = None,
    message: str = "",
    *,
    look: Look | None = None,
    job: Job | None = None,
) -> int:
    """Set the tag ``name`` on ``version`` (default: the latest) until it is untagged; returns the
    version. With a ``job`` it happens once.

    Raises Conflict if the tag is set on another version, NotFound for a version that never was,
    VersionExpired for one that was collected, and then no such tag is left. Without a ``look`` a
    version below the boundary whose blocks would have to be looked at counts as collected.
    """
    from blockstore.index.change import Tag
    from blockstore.index.checkpoint_write import pin_checkpoint

    check_tag(name)
    check_text("the message", message, limit=_MAX_MESSAGE)
    state = log.poll() if version is None else log.at(version)
    if job is not None and version is None and state.committed(job):
        state = log.at(_tagged_by(log, state, job, name))
    # What this handle knows of another history would be read as a checkpoint of this one.
    log.confirm()
    pinned = pin_checkpoint(writable(log.bucket), state)
    if pinned.state is None and state.version >= log.boundary.read():
        raise Unavailable(
            f"checkpoint {state.version} of {log.bucket.url} shares leaves with one that may be "
            "collected, or was left by another history, so no tag was set: tag another version"
        )
    if pinned.name is None:
        # Another wrote it: once the entries are collected it is all that is left of the version.
        _check_checkpoint(log, state)
    commit = world.ids.ulid()
    wanted = Tag(commit=commit, name=name, version=state.version, message=message, job=job)
    committed = log.commit(wanted)
    try:
        why = _why_lost(log, name, state, committed.version, look)
    except Unavailable as error:
        raise Indeterminate(
            f"tag {name!r} was set on version {state.version}, and it is not known whether that "
            f"version was collected before: {error}; tag it again to find out",
            commit=commit,
            entry=committed.version,
        ) from error
    if why is None:
        return state.version
    if committed.version is not None:
        _take_away(log, world, name, state.version)
    expired = History(log.reader, log.state).expired(f"version {state.version}", log.boundary.seen)
    became = (
        "was not kept"
        if committed.version is not None
        else "is set on it and does not keep it, untag it"
    )
    raise VersionExpired(f"{expired}; tag {name!r} {became}: {why}")


def _tagged_by(log: Log, state: State, job: Job, name: str) -> int:
    """The version that a job tagged before. Raises VersionExpired where that is not known."""
    written = state.batches[job.app].written(job.batch)
    entries = [] if written is None else [*log.entries(written.version, written.version)]
    version = entries[0].tags.get(name) if entries else None
    if version is None:
        raise VersionExpired(
            f"job {job.app!r} has done batch {job.batch} before, and it is not known which version "
            f"it tagged {name!r}: look at the tags of the table"
        )
    return version


def _check_checkpoint(log: Log, state: State) -> None:
    """Raise Corrupt if the checkpoint of a state's version is damaged, or of another history."""
    data = log.reader.checkpoint_data(state.version)
    if data is None or (TREE not in state.requires and data == encode_checkpoint(state)):
        return
    stored, url = log.reader.checkpoint(data, state.version), log.bucket.url
    if not holds_state(stored, state):
        raise Corrupt(
            f"{checkpoint_key(state.version)} of {url} differs from the state that the entries up "
            f"to {state.version} produce, and no tag was set: {how_to_replace_checkpoint(url)}"
        )
    if stored.root is not None:
        from blockstore.index.tree.collect import broken_leaf  # few tables have leaves

        why = broken_leaf(log.bucket, stored, log.reader.leaves)
        if why is not None:
            raise Corrupt(
                f"{checkpoint_key(state.version)} of {url} is not whole ({why}), and no tag was "
                f"set: {how_to_replace_checkpoint(url)}"
            )


def untag(log: Log, world: World, name: str, message: str = "", *, job: Job | None = None) -> None:
    """Take the name away; its version expires with its age. With a ``job`` it happens once.

    Raises NotFound if there is no such tag.
    """
    from blockstore.index.change import Untag

    check_tag(name)
    check_text("the message", message, limit=_MAX_MESSAGE)
    state = log.poll()
    if name not in state.tags and (job is None or not state.committed(job)):
        names = ", ".join(map(repr, sorted(state.tags))) or "none"
        raise NotFound(
            f"{log.bucket.url} has no tag {name!r} at version {state.version}, its tags: {names}"
        )
    log.commit(Untag(commit=world.ids.ulid(), name=name, message=message, job=job))


def temporary(tags: Mapping[str, int]) -> list[str]:
    """The tags of restores among these, in their order of age. Pure."""
    return sorted(
        name
        for name in tags
        if name.startswith(TEMPORARY) and is_ulid(name.removeprefix(TEMPORARY))
    )


def untag_abandoned(log: Log, world: World) -> list[str]:
    """Take away the tags of restores that died: those whose ULID is older than ``delete_delay``,
    and than an hour.

    A restore that only stalled for so long finds its tag gone before it changes anything, and plans
    again.
    """
    from blockstore.index.change import Untag

    state = log.poll()
    held = temporary(state.tags)
    if not held:
        return []
    old_ms = log.bucket.now_ms() - max(
        round(state.definition.properties.delete_delay_s * 1000), _ABANDONED_MS
    )
    gone = [name for name in held if ulid_time_ms(name.removeprefix(TEMPORARY)) < old_ms]
    for name in gone:
        log.commit(Untag(commit=world.ids.ulid(), name=name, version=state.tags[name]))
    return gone


def keeps_from(log: Log, version: int) -> int:
    """From when on, in milliseconds of the store's clock, another tag keeps this version of the
    state that is known.

    0 for a version above the boundary. Raises VersionExpired where no tag pins one below it.
    """
    boundary = log.boundary.read()
    if version > boundary:
        return 0
    found = _proof_from(log, version, log.state.version + 1)
    if found is None:
        raise History(log.reader, log.state).expired(f"version {version}", boundary)
    return found


def _why_lost(
    log: Log, name: str, state: State, entry: int | None, look: Look | None
) -> str | None:
    """Why a tag that is in the index does not keep its version; None if it does.

    ``entry`` is the tag's own; None where an earlier call committed it.
    """
    boundary = log.boundary.read()
    if state.version > boundary:
        return None
    if not _pinned_for_long(log, state.version, log.state.version + 1 if entry is None else entry):
        return (
            f"the boundary had reached {boundary}, and no tag has pinned the version for half a "
            "delete_delay"
        )
    if log.reader.checkpoint_data(state.version) is None:
        return "its checkpoint is gone"
    if look is None:
        return None if entry is None else "its blocks were not checked"
    return look([block.meta for block in state.blocks])


def _pinned_for_long(log: Log, version: int, entry: int) -> bool:
    """Whether the state just before an entry pinned the version by a tag that no process can have
    overlooked by now."""
    found = _proof_from(log, version, entry)
    return found is not None and log.bucket.now_ms() >= found


def _proof_from(log: Log, version: int, entry: int) -> int | None:
    """From when on no process can have overlooked the oldest tag by which the state just before an
    entry pinned the version; None where there was none, or it is not known."""
    try:
        before = log.at(entry - 1)
        since = _tagged_since(
            log, {name for name, pinned in before.tags.items() if pinned == version}, entry
        )
        tagged_ms = [log.bucket.head(entry_key(at)).modified_ms for at in since]
    except NotFound:  # collected since
        return None
    half_ms = before.definition.properties.delete_delay_s * 500
    return math.ceil(min(tagged_ms) + half_ms) if tagged_ms else None


def _tagged_since(log: Log, names: set[str], entry: int) -> set[int]:
    """The entries that set these names last; the oldest left for names that were set before it."""
    oldest = log.boundary.seen + 1
    found = dict.fromkeys(names, oldest)
    for one in log.entries(oldest, entry - 1):
        found.update(dict.fromkeys(names.intersection(one.tags), one.id))
    return set(found.values())


def _take_away(log: Log, world: World, name: str, version: int) -> None:
    from blockstore.index.change import Untag

    commit = world.ids.ulid()
    try:
        log.commit(Untag(commit=commit, name=name, version=version))
    except BlockstoreError as error:
        raise Indeterminate(
            f"tag {name!r} is set on version {version}, which was collected, and could not be "
            f"removed: {error}; untag it",
            commit=commit,
        ) from error
