"""``revert`` where rows have an identity: the rows of a write get their former state again.

Rules (design 8.5):
- A row whose current version is the reverted write's gets the version before it, as a new version:
  its former image, or a tombstone where it did not exist. No block is hidden or removed.
- Where the version before is of another write that is reverted too, the one before that counts.
- What retention, or a person, removed cannot be reverted: the version that removed it is no write.
- A row that was changed since is left, and reported; ``strict`` applies nothing then.
- The former versions are read at the version of the write. If that was collected, it is
  VersionExpired.
- The identities of the rows of all reverted writes are held in memory, and of the table those of
  some million rows at once (``two_versions.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Conflict, Invalid, NotFound, RowConflict, VersionExpired
from blockstore.format.block import StreamKey
from blockstore.format.identity import DELETED, Identity
from blockstore.format.value_text import plain, row_text
from blockstore.index.entry import Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lazy import once
from blockstore.names import is_ulid
from blockstore.operations.access import Access
from blockstore.operations.results import Reverted
from blockstore.operations.revert import named_once
from blockstore.rows.attempts import (
    Said,
    already_done,
    change_rows,
    identity_of,
)
from blockstore.rows.expire import PRODUCER
from blockstore.rows.reading import ids_of
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import Changes, NoChanges, StreamChanges
from blockstore.rows.two_versions import (
    NewestVersions,
    as_now,
    current_plan,
    identity_values,
    newest_versions,
    pinned,
    rows_of,
)
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import hashes
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot

_WHAT = "a revert"
_SHOWN = 1_000

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class _Write:
    """A write that is reverted."""

    source: str
    state: State
    """The state that has it for the first time."""
    block: LiveBlock
    rows: pa.Table
    """The identities that it wrote, and ``_deleted``."""
    identity: Identity

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def stream(self) -> StreamKey:
        return self.block.meta.stream

    @once
    def values(self) -> pa.Array:
        """One value for each row."""
        return identity_values(self.rows, self.identity)

    @property
    def deletes(self) -> Mask:
        """Which rows are tombstones."""
        found: Mask = self.rows[DELETED].to_numpy().astype(bool)
        return found

    def named_as(self, identity: Identity) -> _Write:
        """The same write by other names of the key's columns, which may have been renamed since."""
        names = dict(zip(self.identity.columns, identity.columns, strict=True))
        rows = self.rows.rename_columns([names.get(name, name) for name in self.rows.column_names])
        return replace(self, identity=identity, rows=rows)

    def before(self, now: State) -> Snapshot:
        """The table as it was just before, as it is read now."""
        blocks = self.state.blocks.changed([self.block.ulid], ())
        return replace(as_now(self.state, now.definition), blocks=blocks)


@dataclass(slots=True)
class _Found:
    """What a revert means on one state."""

    undone: Counter[str] = field(default_factory=Counter)
    left: dict[str, int] = field(default_factory=dict)
    left_rows: list[tuple[object, int, int | None]] = field(default_factory=list)
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def revert_rows(
    access: Access,
    writes: Iterable[str | int],
    said: Said,
    *,
    strict: bool = False,
    dry_run: bool = False,
) -> Reverted:
    """Give the rows of these writes the state that they had before.

    Args:
        access: The table.
        writes: ULIDs as the writes returned them, or numbers of versions: all writes of them.
        said: What the caller says of it.
        strict: Whether rows that were changed since are an error.
        dry_run: Return what would be done.

    Raises:
        NotFound: The table has no such write, or does not show it yet.
        VersionExpired: The version of a write was collected.
        RowConflict: Rows were changed since, and ``strict`` is given; or others change the same
            rows all the while. Nothing is applied.
    """
    state = access.log.poll()
    before = None if dry_run else already_done(state, Operation.REVERT, said)
    if before is not None:
        access.log.confirm()
        return Reverted(version=before.version, repeated=True)
    sources, versions = _versions(access, state, writes)
    states = {version: access.log.at(version) for version in set(versions.values())}
    with pinned(access, state, [] if dry_run else states.values()):
        found = [_read(access, state, source, states[versions[source]]) for source in sources]
        last: list[_Found] = []

        def write(now: State, changes: StreamChanges) -> RowsChanged:
            did = _undo(access, now, found, changes)
            if strict:
                _refuse_left(did)
            last[:] = [did]
            return RowsChanged(
                operation=str(Operation.REVERT),
                inserted=did.inserted,
                updated=did.updated,
                deleted=did.deleted,
            )

        if dry_run:
            did = _undo(access, state, found, NoChanges())
            return _reverted(sources, did, None, dry_run=True)
        named = replace(said, parameters={**said.parameters, "sources": list(sources)})
        done = change_rows(access, Operation.REVERT, write, named, reads=True)
        if done.already:
            return Reverted(version=done.version, repeated=True)
        return _reverted(sources, last[0], done.version)


def _undo(access: Access, now: State, writes: Sequence[_Write], sink: Changes) -> _Found:
    """Write what undoes the writes on a state."""
    did, identity = _Found(), identity_of(now.definition, _WHAT)
    writes = [write.named_as(identity) for write in writes]
    for stream in sorted({write.stream for write in writes}):
        own = [write for write in writes if write.stream == stream]
        _undo_in(access, now, own, sink, did)
    return did


def _undo_in(
    access: Access, now: State, writes: Sequence[_Write], sink: Changes, did: _Found
) -> None:
    """Write what undoes the writes of one stream, the newest first."""
    chased: dict[str, pa.Array] = {}
    if sink.seen is not None:
        for write in writes:
            named = [write.rows[name].combine_chunks() for name in write.identity.columns]
            sink.seen.rows(write.stream, named)
    names = now.definition.schema.names
    for write in sorted(writes, key=lambda one: one.version, reverse=True):
        newest = newest_versions(access, Snapshot.of(now), write.stream, write.values)
        mine = newest.versions == write.version
        mine |= _tombstones_gone(write, newest, now)
        mine |= _among(write.values, chased.get(write.source))
        _count_left(write, newest, mine | _of_others(write, newest, writes), did)
        chosen = pa.array(mine)
        values, rows = write.values.filter(chosen), write.rows.filter(chosen)
        before = write.before(now)
        former = newest_versions(access, before, write.stream, values)
        there = (former.versions > 0) & ~former.deleted
        lives = (newest.versions > 0)[mine] & ~newest.deleted[mine]
        chase = np.zeros(len(values), dtype=bool)
        for other in writes:
            if other.version < write.version:
                own = (former.versions == other.version) & _among(values, other.values)
                before_it = chased.get(other.source, values[:0])
                chased[other.source] = pa.concat_arrays([before_it, values.filter(pa.array(own))])
                chase |= own
        back, gone = there & ~chase, ~there & ~chase & lives
        for batch in _with(access, before, write, values.filter(pa.array(back))):
            sink.put(write.stream, batch.select(names), ids_of(batch, write.identity))
        for batch in rows.filter(pa.array(gone)).to_batches():
            sink.delete(write.stream, batch.select(list(write.identity.columns)))
        did.undone[write.source] += int(back.sum() + gone.sum())
        did.inserted += int((back & ~lives).sum())
        did.updated += int((back & lives).sum())
        did.deleted += int(gone.sum())


def _with(
    access: Access, before: Snapshot, write: _Write, values: pa.Array
) -> Iterator[pa.RecordBatch]:
    """The complete rows of these identities."""
    if not len(values):
        return
    plan = current_plan(access, before)
    plan = replace(plan, chunks=tuple(one for one in plan.chunks if one.stream == write.stream))
    for batch in rows_of(access, plan):
        among = pc.is_in(identity_values(batch, write.identity), value_set=values)
        if pc.any(among).as_py():
            yield batch.filter(among)


def _tombstones_gone(write: _Write, newest: NewestVersions, now: State) -> Mask:
    """Tombstones of the write that a merge has dropped since, and that are still what counts: no
    entry has touched their rows."""
    lost = write.deletes & (newest.versions < write.version)
    if not lost.any() or now.touches is None:
        return np.zeros(len(lost), dtype=bool)
    rows = write.rows.filter(pa.array(lost))
    columns = [rows[name].combine_chunks() for name in write.identity.columns]
    own = hashes(write.identity, write.stream, columns)
    touched = now.touches.among(own, write.version)
    if touched is None:
        return np.zeros(len(lost), dtype=bool)
    lost[np.flatnonzero(lost)] = ~np.isin(own, touched)
    return lost


def _of_others(write: _Write, newest: NewestVersions, writes: Sequence[_Write]) -> Mask:
    """The rows whose current version is of another write that is reverted."""
    found = np.zeros(len(write.values), dtype=bool)
    for other in writes:
        if other.version > write.version:
            found |= (newest.versions == other.version) & _among(write.values, other.values)
    return found


def _count_left(write: _Write, newest: NewestVersions, known: Mask, did: _Found) -> None:
    places = np.flatnonzero(~known)
    if not len(places):
        return
    did.left[write.source] = len(places)
    for place in places[: _SHOWN - len(did.left_rows)]:
        key = tuple(plain(write.rows[name][place]) for name in write.identity.columns)
        version = int(newest.versions[place])
        gone = version <= write.version or bool(newest.deleted[place])
        did.left_rows.append(
            (key[0] if len(key) == 1 else key, write.version, None if gone else version)
        )


def _refuse_left(did: _Found) -> None:
    if did.left_rows:
        row, version, found = did.left_rows[0]
        now = "was deleted" if found is None else f"has version {found}"
        raise RowConflict(
            f"{sum(did.left.values()):,} of the rows were changed since: row {row_text(row)} was "
            f"written at version {version} and {now}; nothing was applied, revert those changes "
            "too, or leave strict out",
            rows=did.left_rows,
        )


def _among(values: pa.Array, others: pa.Array | None) -> Mask:
    if others is None or not len(others):
        return np.zeros(len(values), dtype=bool)
    found: Mask = pc.is_in(values, value_set=others).to_numpy(zero_copy_only=False)
    return found


def _read(access: Access, now: State, source: str, state: State) -> _Write:
    """The write of a source, with the identities of its rows."""
    identity = identity_of(now.definition, _WHAT)
    held = [one for one in state.blocks.holding([source]) if one.meta.level == 1]
    if not held:
        raise Conflict(
            f"version {state.version} of {access.bucket.url} has no write {source}, and its entry "
            "named it just before: the history of the table was replaced; open it again"
        )
    (block,) = held
    if block.meta.producer == PRODUCER:
        raise NotFound(
            f"block {source} of {access.bucket.url} keeps away rows that version {state.version} "
            "removed, and is no write that could be reverted"
        )
    alone = replace(as_now(state, now.definition), blocks=state.blocks.of([block]))
    plan = plan_scan(alone, columns=identity.columns, every_version=True)
    rows = pa.Table.from_batches(
        read_plan(access.bucket, plan, access.world), plan.output_schema
    ).combine_chunks()
    return _Write(source=source, state=state, block=block, rows=rows, identity=identity)


def _versions(
    access: Access, state: State, writes: Iterable[str | int]
) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """The writes that are meant, and the version of each. Raises NotFound and VersionExpired."""
    if isinstance(writes, str | int):
        writes = [writes]
    wanted = tuple(dict.fromkeys(named_once(writes)))
    if not wanted:
        raise Invalid("revert needs at least one write: pass its ULID, as the write returned it")
    found: dict[str, int] = {}
    for one in wanted:
        if isinstance(one, int) and not isinstance(one, bool):
            found.update(dict.fromkeys(_writes_of(access, one), one))
        elif not isinstance(one, str) or not is_ulid(one):
            raise Invalid(
                f"{one!r} is not a ULID of a write, expected 26 characters as the write returned "
                "them, or the number of a version"
            )
    sources = {one for one in wanted if isinstance(one, str)}
    for block in state.blocks.holding(sources):
        if block.meta.level == 1:
            found.update(dict.fromkeys(sources.intersection(block.meta.sources), block.version))
    unknown = sources - found.keys()
    for entry in access.log.entries() if unknown else ():
        for added in entry.add:
            if added.meta.level == 1:
                found.update(dict.fromkeys(unknown.intersection(added.meta.sources), entry.id))
    _check_known(access, state, sorted(unknown - found.keys()))
    return tuple(sorted(found)), found


def _writes_of(access: Access, version: int) -> list[str]:
    """The writes that a version added."""
    access.log.at(version)
    entry = next(access.log.entries(version, version), None)
    added = () if entry is None or entry.operation == Operation.EXPIRE else entry.add
    found = [one.meta for one in added if one.meta.level == 1]
    if not found:
        what = "void" if entry is None else f"a version of {entry.operation}"
        raise NotFound(
            f"version {version} of {access.bucket.url} is {what} and has written no rows: name the "
            "version of a write"
        )
    return [meta.sources[0] for meta in found]


def _check_known(access: Access, state: State, unknown: Sequence[str]) -> None:
    if not unknown:
        return
    if unknown[0] in state.accounted:
        raise VersionExpired(
            f"the version of write {unknown[0]} of {access.bucket.url} was collected, and with it "
            "the former versions of its rows: change the rows, or tag versions that are to stay"
        )
    raise NotFound(
        f"{access.bucket.url} has no write {unknown[0]} at version {state.version}: expected the "
        "ULID that a write returned; one that is not published yet cannot be reverted"
    )


def _reverted(
    sources: Sequence[str], did: _Found, version: int | None, *, dry_run: bool = False
) -> Reverted:
    undone = {source: rows for source, rows in sorted(did.undone.items()) if rows}
    return Reverted(
        version=version,
        dry_run=dry_run,
        undone=undone,
        left=dict(sorted(did.left.items())),
        left_rows=tuple(did.left_rows),
        already=tuple(
            source for source in sources if source not in undone and source not in did.left
        ),
    )
