"""Damage, after the end of a run: a process that meets it must stop, raise the right error, and
remove nothing (3.9).

One kind of damage after the other is done to the stored bytes, every process that must notice it
runs, and the bytes are put back: a boundary that is gone, fell or is garbage; an entry or a
checkpoint that cannot be read, or is under another's name; a chunk that is missing or cut short; a
meta.json that is garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from blockstore.clock import ManualClock
from blockstore.errors import BlockstoreError, BoundaryLost, Corrupt, ObjectMissing
from blockstore.format.block import BlockKind
from blockstore.ids import Ids
from blockstore.index.gc import collect
from blockstore.names import BOUNDARY, checkpoint_key, entry_key, meta_key, object_key
from blockstore.operations.unindexed import Unindexed
from blockstore.simulation.ground import Kind
from blockstore.simulation.report import Section
from blockstore.simulation.rows import batches_of
from blockstore.simulation.schedule import HOUR_MS
from blockstore.simulation.stage import Stage
from blockstore.simulation.violation import Violation
from blockstore.table import Table
from blockstore.world import Serial, World

Act = Callable[[], object]


def strike(stage: Stage) -> None:
    """Do every kind of damage to the run's table, one after the other."""
    stage.store.watchers.clear()
    site = _Site(stage)
    if stage.judge.history is not None:
        site.damage_boundary()
        site.damage_index()
    site.damage_blocks()


class _Site:
    """The store after a run, and the processes that look at it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._store = stage.store
        clock = ManualClock(stage.scheduler.now_ms)
        self._world = World(clock=clock, ids=Ids.seeded(clock, stage.seed), pool=Serial())
        self._history = stage.judge.history
        self._warm = self._open()
        self._warm.snapshot()

    def damage_boundary(self) -> None:
        """It vanishes, falls, is garbage: writers, readers and collectors stop."""
        warm = self._warm
        known: list[Act] = [warm.poll, self._append, lambda: collect(warm.log, self._world)]
        with self._damaged("the boundary vanished", BOUNDARY, None):
            self._expect(BoundaryLost, [*known, self._open])
        with self._damaged("the boundary is garbage", BOUNDARY, b"12 or so"):
            self._expect(BoundaryLost, [*known, self._open])
        assert self._history is not None
        if self._history.boundary > 0:
            with self._damaged("the boundary fell", BOUNDARY, b"0"):
                self._expect(BoundaryLost, known)

    def damage_index(self) -> None:
        """An entry or a checkpoint cannot be read: a cold reader stops, and never steps back."""
        assert self._history is not None
        latest, boundary = self._history.latest.state.version, self._history.boundary
        if self._store.data(checkpoint_key(latest)) is None:
            key = entry_key(latest)
            whole = self._store.get(key).data
            with self._damaged("an entry is cut short", key, whole[: len(whole) // 2]):
                self._expect(Corrupt, [self._open])
            with self._damaged(
                "an entry has another's id", key, whole.replace(b'"id":', b'"id":1', 1)
            ):
                self._expect(Corrupt, [self._open])
        if 0 < boundary < latest - 1 and self._store.data(checkpoint_key(boundary + 1)) is None:
            with self._damaged("a checkpoint is cut short", checkpoint_key(boundary), b"PAR1"):
                self._expect(Corrupt, [lambda: self._open().log.at(boundary + 1)])

    def damage_blocks(self) -> None:
        """A block that is read lost a part: the query fails and names it; it never returns fewer
        rows (R11)."""
        snapshot = self._warm.snapshot()
        metas = [
            block.meta for block in snapshot.blocks if block.meta.kind is not BlockKind.HISTORY
        ]
        if not metas:
            return
        meta = metas[-1]
        key = object_key(meta.ulid, meta.chunks[0].path)
        read: Act = lambda: self._open().snapshot().scan(columns=["row"]).to_table()  # noqa: E731
        with self._damaged("a chunk is missing", key, None):
            if self._history is None:
                self._expect_left_out(meta.ulid)
            else:
                self._expect(ObjectMissing, [read])
        with self._damaged("a chunk is cut short", key, self._store.get(key).data[:-9]):
            if self._history is None:
                self._expect_left_out(meta.ulid)
            else:
                self._expect(Corrupt, [read])
        if self._history is None:
            with self._damaged("a meta.json is garbage", meta_key(meta.ulid), b'{"version": 1, '):
                self._expect_left_out(meta.ulid)

    def _expect_left_out(self, ulid: str) -> None:
        """Without an index a malformed block is left out by name, and a strict snapshot fails."""
        table = self._open()
        if ulid not in table.snapshot(strict=False).left_out:
            raise Violation(
                f"block {ulid} is damaged, and a snapshot that leaves it out does not name it"
            )
        self._expect(Corrupt, [lambda: table.snapshot(strict=True)])

    def _append(self) -> object:
        write = self._stage.ledger.write(self._stage.scheduler.now_ms)
        rows = batches_of(write, self._warm.definition.schema)
        if self._stage.kind is Kind.KEYED:
            return self._warm.upsert(pa.Table.from_batches(rows))
        return self._warm.append(rows)

    def _open(self) -> Table:
        if self._history is not None:
            return Table.open_bucket(self._store, self._world)
        assert self._stage.definition is not None
        unindexed = Unindexed(self._stage.definition, given=True)
        return Table(self._store, self._world, unindexed)

    @contextmanager
    def _damaged(self, what: str, key: str, data: bytes | None) -> Iterator[None]:
        """The object's bytes are these (None: it is gone) for a while; nothing else may go
        meanwhile."""
        whole = self._store.get(key).data
        before = {info.key for info in self._store.list()}
        if data is None:
            self._store.delete([key])
        else:
            self._store.put(key, data)
        self._stage.scheduler.pass_time(HOUR_MS)  # what is too young is not judged
        try:
            yield
        finally:
            lost = before - {info.key for info in self._store.list()} - {key}
            self._store.put(key, whole)
        if lost:
            raise Violation(f"{what}, and {min(lost)} was deleted")
        self._stage.report.count(Section.EVENTS, f"disaster: {what}")

    def _expect(self, kind: type[BlockstoreError], acts: Sequence[Act]) -> None:
        for act in acts:
            try:
                answer = act()
            except BlockstoreError as error:
                self._stage.report.count(Section.ERRORS, type(error).__name__)
                if not isinstance(error, kind):
                    raise Violation(
                        f"{kind.__name__} was expected after damage, found {error!r}"
                    ) from error
            else:
                raise Violation(
                    f"{kind.__name__} was expected after damage, found the result {answer!r}"
                )
