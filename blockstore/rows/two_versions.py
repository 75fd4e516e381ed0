"""Two versions of a table, compared row by row: what a restore and a revert are made of.

Rules:
- A row that both versions show at the same place of the same chunk is the same row: such rows are
  compared without a read.
- Of all others the identities and versions are read, those of some million rows of each version at
  once, or of one larger chunk; and as always those of all changes. No image is held in memory.
- Rows of two streams are never versions of one another.
- Chunks of a version that the newest one no longer names are held by a tag while they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import VersionExpired
from blockstore.format.block import StreamKey
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, ROW_ID, VERSION, Identity, RowIds
from blockstore.index import tags
from blockstore.index.state import State
from blockstore.lifecycle.complete import CheckComplete
from blockstore.operations.access import Access
from blockstore.operations.restore import check_kept, clear_pins
from blockstore.rows.attempts import identity_of
from blockstore.rows.reading import by_stream, range_of
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.execute import read_plan, resolve
from blockstore.scan.identities import identities
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot

_AT_ONCE = 4_000_000


def as_now(then: State, now: Definition) -> Snapshot:
    """Return the snapshot of an earlier state, under the definition of now. Raises VersionExpired
    if its rows had another identity."""
    if not then.definition.identifies_as(now):
        raise VersionExpired(
            f"version {then.version} is of a time when rows were not identified as they are now: "
            "its rows cannot be compared with those of now"
        )
    return replace(Snapshot.of(then), definition=now)


def current_plan(access: Access, snapshot: Snapshot) -> ScanPlan:
    """Return what a snapshot shows: all columns of its current rows, ``_row_id`` where rows have
    ids, and ``_version``."""
    identity = identity_of(snapshot.definition, "a comparison of versions")
    hidden = (ROW_ID, VERSION) if isinstance(identity, RowIds) else (VERSION,)
    plan = plan_scan(snapshot, columns=(*snapshot.definition.schema.names, *hidden))
    return resolve(access.bucket, plan, access.world)


def shown_elsewhere(plan: ScanPlan, other: ScanPlan) -> ScanPlan:
    """Return the rows of a plan that another one does not show at the same place. Reads nothing."""
    theirs = {chunk.key: chunk for chunk in other.chunks}
    chunks = (
        chunk if (there := theirs.get(chunk.key)) is None else _beside(chunk, there)
        for chunk in plan.chunks
    )
    return replace(plan, chunks=tuple(chunk for chunk in chunks if chunk.rows))


def without(access: Access, plan: ScanPlan, other: ScanPlan, on: Sequence[str]) -> ScanPlan:
    """Return the rows of a plan of which another one has none with the same ``on`` columns."""
    kept: list[ScanChunk] = []
    others = {stream: part.chunks for stream, part in by_stream(other)}
    for stream, part in by_stream(plan):
        theirs = others.get(stream, ())
        for run in _runs(part.chunks):
            values = _values(access, plan, run, on)
            found = np.zeros(len(values), dtype=bool)
            for some in _runs(theirs):
                there = pc.is_in(values, value_set=_values(access, other, some, on))
                found |= there.to_numpy(zero_copy_only=False)
            first = 0
            for chunk in run:
                own = _shown(chunk)[~found[first : first + chunk.rows]]
                first += chunk.rows
                kept.append(_only(chunk, own))
    return replace(plan, chunks=tuple(chunk for chunk in kept if chunk.rows))


def rows_of(
    access: Access, plan: ScanPlan, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan of this module; of all its columns, or some."""
    if columns is not None:
        plan = replace(plan, output_schema=plan.columns.select(columns))
    yield from read_plan(access.bucket, plan, access.world)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestVersions:
    """The newest version of each of some rows, tombstones included."""

    versions: npt.NDArray[np.int64]
    """0 where none is known."""
    deleted: npt.NDArray[np.bool_]


def newest_versions(
    access: Access, snapshot: Snapshot, stream: StreamKey, values: pa.Array
) -> NewestVersions:
    """Return the newest versions that a snapshot has of the rows with these identities."""
    identity = identity_of(snapshot.definition, "a comparison of versions")
    versions = np.zeros(len(values), dtype=np.int64)
    deleted = np.zeros(len(values), dtype=bool)
    plan = plan_scan(
        snapshot,
        columns=(*identity.columns, VERSION),
        where=range_of(snapshot, identity.columns, values),
        every_version=True,
    )
    chunks = [chunk for chunk in plan.chunks if chunk.stream == stream]
    for run in _runs(chunks):
        rows = pa.Table.from_batches(
            read_plan(access.bucket, replace(plan, chunks=tuple(run)), access.world),
            plan.output_schema,
        )
        own = identities([rows[name] for name in identity.columns])
        places = pc.index_in(own, value_set=values)
        known = places.is_valid().to_numpy(zero_copy_only=False)
        at = places.drop_null().to_numpy()
        found = rows[VERSION].to_numpy()[known]
        before = versions.copy()
        np.maximum.at(versions, at, found)
        risen = (found == versions[at]) & (found > before[at])
        deleted[at[risen]] = rows[DELETED].to_numpy()[known][risen]
    return NewestVersions(versions=versions, deleted=deleted)


@contextmanager
def pinned(access: Access, now: State, versions: Iterable[State]) -> Iterator[None]:
    """Keep former versions readable. One whose blocks are all live is read as any snapshot is.

    Raises VersionExpired for one that was collected.
    """
    held = []
    try:
        for then in versions:
            ulids = then.blocks.ulids()
            if len(now.blocks.get_all(ulids)) == len(ulids):
                continue
            check_kept(access.log, now, then.version)
            held.append(then.version)
            name = f"{tags.TEMPORARY}{access.world.ids.ulid()}"
            look = CheckComplete(access.bucket, access.world)
            why = f"version {then.version} is compared with the newest one"
            tags.tag(access.log, access.world, name, then.version, why, look=look)
        yield
    finally:
        for version in held:
            clear_pins(access, version)


def identity_values(rows: pa.RecordBatch | pa.Table, identity: Identity) -> pa.Array:
    """Return one value for each row."""
    return identities([rows.column(name) for name in identity.columns])


def _values(
    access: Access, plan: ScanPlan, chunks: Sequence[ScanChunk], on: Sequence[str]
) -> pa.Array:
    some = replace(plan, chunks=tuple(chunks))
    schema = some.columns.select(on)
    rows = pa.Table.from_batches(rows_of(access, some, on), schema)
    return identities([rows[name] for name in on])


def _shown(chunk: ScanChunk) -> Positions:
    """The positions of a chunk's rows that are not hidden."""
    every = np.arange(chunk.file.rows)
    return every if chunk.hidden is None else np.delete(every, chunk.hidden)


def _only(chunk: ScanChunk, positions: Positions) -> ScanChunk:
    """The chunk with these rows alone."""
    if len(positions) == chunk.file.rows:
        return replace(chunk, hidden=None)
    return replace(chunk, hidden=np.delete(np.arange(chunk.file.rows), positions))


def _beside(chunk: ScanChunk, other: ScanChunk) -> ScanChunk:
    """The rows of a chunk that the other sight of the same chunk does not show."""
    if other.hidden is None:
        return _only(chunk, _shown(chunk)[:0])
    return _only(chunk, np.intersect1d(_shown(chunk), other.hidden))


def _runs(chunks: Sequence[ScanChunk]) -> Iterator[list[ScanChunk]]:
    """Chunks that are looked at together."""
    run: list[ScanChunk] = []
    rows = 0
    for chunk in chunks:
        if run and rows + chunk.rows > _AT_ONCE:
            yield run
            run, rows = [], 0
        run.append(chunk)
        rows += chunk.rows
    if run:
        yield run
