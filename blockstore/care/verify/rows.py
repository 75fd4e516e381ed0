"""Check rows that have an identity: what a reader of current rows relies on (format, "rows that
change").

Rules:
- By metadata: ids are below the next one and were given once; a write of changes names only ids
  that were given before; rows that a merge has carried are of versions before its own.
- The deep check reads the columns that identify rows, and their versions: a row is current once,
  two plain rows never have one identity, and no former version is a current one.
- Memory: 8 bytes of each of some million rows at once. A larger table is read several times, each
  time for another part of the identities. The changes of all streams are held, as in a query.
- Rows of a block that is damaged otherwise are left out. Where changes are, no rows are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import ReadBucket
from blockstore.care.finding import Check, Finding, Severity
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockKind, BlockMeta, ColumnStats, StreamKey
from blockstore.format.identity import ROW_ID, VERSION, Identity, RowIds
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.names import object_key
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.execute import read_plan, resolve
from blockstore.scan.identities import hashes, identities
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

_AT_ONCE = 16_000_000
_CONFIRMED = 1_000

Hashes = npt.NDArray[np.uint64]


def check_rows(
    bucket: ReadBucket,
    world: World,
    state: State | None,
    *,
    deep: bool,
    damaged: Collection[str] = (),
) -> Iterator[Finding]:
    """Report what is wrong with the rows of a table whose rows have an identity.

    Args:
        bucket: the table.
        world: the threads.
        state: the version to check.
        deep: whether to read the columns that identify rows.
        damaged: blocks of which something else is reported.
    """
    identity = None if state is None else state.definition.identity
    if state is None or identity is None:
        return
    blocks = list(state.blocks)
    if isinstance(identity, RowIds):
        yield from _given_twice(blocks, bucket.url)
    for block in blocks:
        yield from _by_metadata(block, state, bucket.url)
    if not deep:
        return
    hiding = [one for one in blocks if one.meta.kind is BlockKind.CHANGES and one.ulid in damaged]
    if hiding:
        yield Finding(
            severity=Severity.NOTE,
            check=Check.ROWS,
            object=hiding[0].ulid,
            block=hiding[0].ulid,
            what="its changes are damaged, so it is not known which rows are current: rows were "
            "not compared",
            fix=f"repair the block, then blockstore verify {bucket.url} --deep",
        )
        return
    whole = state.blocks.changed([one.ulid for one in blocks if one.ulid in damaged], ())
    look = _Look(bucket, world, replace(Snapshot.of(state), blocks=whole), identity)
    try:
        yield from look.findings()
    except (Corrupt, ObjectMissing) as error:
        yield Finding(
            severity=Severity.ERROR,
            check=Check.ROWS,
            object=bucket.url,
            what=f"the rows cannot be compared: {error}",
            fix=_fix(bucket.url),
        )


def _given_twice(blocks: Sequence[LiveBlock], url: str) -> Iterator[Finding]:
    """Report writes to which the same ids were given."""
    writes = sorted(
        (one for one in blocks if one.meta.level == 1), key=lambda one: one.first_row_id
    )
    for before, block in pairwise(writes):
        if before.first_row_id + before.meta.rows > block.first_row_id:
            yield _finding(
                block.ulid,
                block.meta,
                f"its rows begin with id {block.first_row_id}, and block {before.ulid} has the ids "
                f"from {before.first_row_id} to {before.first_row_id + before.meta.rows - 1}: ids "
                "were given twice",
                url,
            )


def _by_metadata(block: LiveBlock, state: State, url: str) -> Iterator[Finding]:
    meta = block.meta
    for file in meta.chunks:
        key = object_key(meta.ulid, file.path)
        what = _ids(file.columns.get(ROW_ID), block, state) or _versions(
            file.columns.get(VERSION), block
        )
        if what is not None:
            yield _finding(key, meta, what, url)


def _ids(stats: ColumnStats | None, block: LiveBlock, state: State) -> str | None:
    highest = None if stats is None else stats.max
    if not isinstance(highest, int):
        return None
    if highest >= state.next_row_id:
        return f"has the row id {highest}, and the table has given ids below {state.next_row_id}"
    if block.meta.level == 1 and highest >= block.first_row_id:
        return (
            f"changes row {highest}, which did not exist at version {block.version}: the ids "
            f"before it are below {block.first_row_id}"
        )
    return None


def _versions(stats: ColumnStats | None, block: LiveBlock) -> str | None:
    highest = None if stats is None else stats.max
    if block.meta.level == 1 or not isinstance(highest, int) or highest < block.version:
        return None
    return (
        f"has a row of version {highest}, and version {block.version} added its block: rows that "
        "it carries are of versions before"
    )


class _Look:
    """The deep check of one version."""

    def __init__(
        self, bucket: ReadBucket, world: World, snapshot: Snapshot, identity: Identity
    ) -> None:
        self._bucket = bucket
        self._world = world
        self._identity = identity
        columns = tuple(dict.fromkeys((*identity.columns, VERSION)))
        every = plan_scan(snapshot, columns=columns, every_version=True)
        self._every = replace(every, output_schema=every.columns.select(columns))
        self._current = resolve(bucket, plan_scan(snapshot, columns=columns), world)
        self._blocks = {one.ulid: one for one in snapshot.blocks}

    def findings(self) -> Iterator[Finding]:
        """Report everything."""
        yield from self._carried()
        for stream in dict.fromkeys(chunk.stream for chunk in self._every.chunks):
            plain = _of(self._every, stream, lambda chunk: chunk.kind is BlockKind.PLAIN)
            current = _of(self._current, stream)
            former = _of(self._every, stream, lambda chunk: chunk.kind is BlockKind.HISTORY)
            doubles = self._twice(stream, plain)
            yield from (
                self._double(row, keys, "two plain blocks have it, and plain rows hide nothing")
                for row, keys in doubles.items()
            )
            for row, keys in self._twice(stream, current).items():
                if row not in doubles:
                    yield self._double(row, keys, "it is current twice")
            yield from self._still_current(current, former)

    def _carried(self) -> Iterator[Finding]:
        """Report rows of merges whose chunks say no bounds of their versions."""
        silent = [
            chunk
            for chunk in self._every.chunks
            if chunk.version is None and chunk.versions[1] is None
        ]
        for chunk in silent:
            block = self._blocks[chunk.block]
            for batch in self._batches(replace(self._every, chunks=(chunk,)), (VERSION,)):
                highest = pc.max(batch.column(0)).as_py()
                what = _versions(ColumnStats(min=None, max=highest, nulls=0), block)
                if what is not None:
                    yield _finding(chunk.key, block.meta, what, self._bucket.url)
                    break

    def _twice(self, stream: StreamKey, plan: ScanPlan) -> dict[str, list[str]]:
        """Return identities that occur in several rows of a plan, as texts, each with the keys of
        the chunks that have it."""
        rows = sum(chunk.rows for chunk in plan.chunks)
        parts = rows // _AT_ONCE + 1
        found: list[Hashes] = []
        for part in range(parts):
            own = [
                some[some % np.uint64(parts) == part] if parts > 1 else some
                for _, _, some in self._hashed(stream, plan)
            ]
            every = np.sort(np.concatenate(own)) if own else np.zeros(0, np.uint64)
            found.append(np.unique(every[1:][every[1:] == every[:-1]]))
        doubles = np.concatenate(found)[:_CONFIRMED]
        return self._confirmed(stream, plan, doubles) if len(doubles) else {}

    def _confirmed(
        self, stream: StreamKey, plan: ScanPlan, doubles: Hashes
    ) -> dict[str, list[str]]:
        """Return those that are really equal: two keys may have one hash."""
        at: dict[str, list[str]] = {}
        for chunk, batch, some in self._hashed(stream, plan):
            hits = batch.filter(pa.array(np.isin(some, doubles)))
            for row in hits.to_pylist():
                text = ", ".join(f"{name} {row[name]!r}" for name in self._identity.columns)
                at.setdefault(text, []).append(chunk.key)
        return {text: keys for text, keys in at.items() if len(keys) > 1}

    def _hashed(
        self, stream: StreamKey, plan: ScanPlan
    ) -> Iterator[tuple[ScanChunk, pa.RecordBatch, Hashes]]:
        for chunk in plan.chunks:
            one = replace(plan, chunks=(chunk,))
            for batch in self._batches(one, self._identity.columns):
                columns = [batch.column(name) for name in self._identity.columns]
                yield chunk, batch, hashes(self._identity, stream, columns)

    def _still_current(self, current: ScanPlan, former: ScanPlan) -> Iterator[Finding]:
        """Report rows of history that no newer version has superseded."""
        columns = (*self._identity.columns, VERSION)
        for chunk in former.chunks:
            one = replace(former, chunks=(chunk,))
            rows = pa.Table.from_batches(self._batches(one, columns), one.columns.select(columns))
            old, highest = _highest(self._values(rows), rows[VERSION].to_numpy())
            for batch in self._batches(current, columns):
                places = pc.index_in(self._values(batch), value_set=old)
                known = places.is_valid()
                at = places.drop_null().to_numpy()
                now = batch.filter(known)
                wrong = np.flatnonzero(now[VERSION].to_numpy() <= highest[at])
                if len(wrong):
                    row = now.slice(int(wrong[0]), 1).to_pylist()[0]
                    text = ", ".join(f"{name} {row[name]!r}" for name in self._identity.columns)
                    yield _finding(
                        chunk.key,
                        self._blocks[chunk.block].meta,
                        f"holds version {highest[at][wrong[0]]} of the row with {text} as a former "
                        f"one, and the current one is version {row[VERSION]}",
                        self._bucket.url,
                    )
                    break

    def _values(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        return identities([rows.column(name) for name in self._identity.columns])

    def _batches(self, plan: ScanPlan, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        narrow = replace(plan, output_schema=plan.columns.select(columns))
        for batch in read_plan(self._bucket, narrow, self._world):
            for name in columns:
                if batch.column(name).null_count:
                    block = plan.chunks[0].block
                    raise Corrupt(
                        f"a row of block {block} has no {name}, and every row of a table with "
                        "this identity has one"
                    )
            yield batch

    def _double(self, row: str, keys: Sequence[str], why: str) -> Finding:
        chunk, *others = dict.fromkeys(keys)
        also = f", also in {others[0]}" if others else ""
        block = self._blocks[chunk.split("/", 1)[0]]
        what = f"the row with {row} occurs {len(keys)} times{also}: {why}"
        return _finding(chunk, block.meta, what, self._bucket.url)


def _of(
    plan: ScanPlan, stream: StreamKey, wanted: Callable[[ScanChunk], bool] = lambda _: True
) -> ScanPlan:
    chunks = tuple(one for one in plan.chunks if one.stream == stream and wanted(one))
    return replace(plan, chunks=chunks)


def _highest(
    values: pa.Array, versions: npt.NDArray[np.int64]
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Each value once, with its highest version."""
    encoded = values.dictionary_encode()
    highest = np.zeros(len(encoded.dictionary), dtype=np.int64)
    np.maximum.at(highest, encoded.indices.to_numpy(), versions)
    return encoded.dictionary, highest


def _finding(key: str, meta: BlockMeta, what: str, url: str) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        check=Check.ROWS,
        object=key,
        block=meta.ulid,
        what=what,
        fix=_fix(url),
    )


def _fix(url: str) -> str:
    return f"stop the compactor, and compare {url} with a copy; keep it as it is until then"
