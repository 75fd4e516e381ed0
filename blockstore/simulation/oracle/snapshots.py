"""What a reader may see.

Promises:
- A snapshot by the index shows the rows of its version, and that is no older than the newest one when it was asked for.
- A snapshot by listing shows those rows, and beside them whole writes that no entry of its version names, each once:
  none that was refused, and every acknowledged one that is old enough to be ready (R2: a copy of meta.json's PUT that
  comes late makes the block wait once more).
- What was read is what the snapshot says; a snapshot can be read until ``delete_delay`` after it was taken (R11, R10).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from blockstore.scan.view import TableSnapshot
from blockstore.simulation.faults import STALE_MS
from blockstore.simulation.ledger import Fate
from blockstore.simulation.rows import WHOLE, Masks, masks_of
from blockstore.simulation.schedule import HOUR_MS
from blockstore.simulation.stage import Stage
from blockstore.simulation.violation import Violation

__all__ = ["Look", "Snapshots"]

_SLACK_MS = HOUR_MS + 60_000
"""By so much a writer's clock may be ahead, and its block be ready later."""


@dataclass(frozen=True, slots=True)
class Look:
    """The moment at which a reader began to look."""

    at_ms: int
    version: int
    """The newest one then."""
    ripe: frozenset[int]
    """Acknowledged writes that must be ready by then, although no entry has named them."""


class Snapshots:
    """Judges the snapshots of one run's readers."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._judge = stage.judge
        self._ripe_ms = 1000 * stage.properties.sync_delay_s + STALE_MS + _SLACK_MS

    def look(self) -> Look:
        """Before a reader asks for a snapshot."""
        now = self._stage.scheduler.now_ms
        history, writes = self._judge.history, self._stage.ledger.writes
        ripe = frozenset(
            number
            for number in self._judge.waiting
            if (at := writes[number].acknowledged_ms) is not None
            and max(at, self._judge.directories.lain_since_ms(number)) + self._ripe_ms < now
        )
        return Look(now, 0 if history is None else history.latest.state.version, ripe)

    def expected(
        self, snapshot: TableSnapshot, look: Look, *, by_listing: bool, latest: bool = True
    ) -> Masks:
        """The rows that reading the snapshot must give; raises Violation if it is not a snapshot to be had."""
        history = self._judge.history
        rows: Masks = {}
        if history is not None:
            version = snapshot.version
            assert version is not None
            if latest and version < look.version:
                raise Violation(
                    f"a reader was shown version {version}, and version {look.version} was there before"
                )
            rows = dict(history.versions[version].rows)
            self._check_blocks(snapshot, version, rows)
        self._add_listed(snapshot, rows)
        if by_listing:
            self._check_ripe(snapshot, look, rows)
        return rows

    def check_rows(self, table: pa.Table, expected: Masks) -> None:
        """What was read, against what had to be."""
        found = masks_of(table["write"].to_pylist(), table["row"].to_pylist(), "what a reader read")
        if found != expected:
            wrong = sorted(write for write in {*found, *expected} if found.get(write) != expected.get(write))
            raise Violation(f"a reader read other rows than its snapshot says, of writes {wrong[:10]}")

    def _check_blocks(self, snapshot: TableSnapshot, version: int, rows: Masks) -> None:
        history = self._judge.history
        assert history is not None
        if snapshot.snapshot.blocks != history.versions[version].state.blocks:
            raise Violation(f"a reader holds other blocks than version {version} has")

    def _add_listed(self, snapshot: TableSnapshot, rows: Masks) -> None:
        for chosen in snapshot.snapshot.listed:
            content = self._judge.directories.content(chosen.meta.ulid)
            for source in sorted(chosen.sources):
                for write, mask in content.by_source.get(source, {}).items():
                    self._check_listed(snapshot, write, mask)
                    if rows.get(write, 0) & mask:
                        raise Violation(f"a reader that lists sees write {write} twice")
                    rows[write] = rows.get(write, 0) | mask

    def _check_listed(self, snapshot: TableSnapshot, write: int, mask: int) -> None:
        if self._stage.ledger.writes[write].fate is Fate.REFUSED:
            raise Violation(f"a reader that lists sees write {write}, which was refused")
        if mask != WHOLE:
            raise Violation(f"a reader that lists sees rows {mask:04b} of write {write}, not all of it")
        history, version = self._judge.history, snapshot.version
        if history is None or version is None:
            return
        entered = history.meaning.applied.get(write, history.meaning.accounted.get(write))
        if entered is not None and entered <= version:
            raise Violation(
                f"a reader at version {version} lists write {write}, which version {entered} accounts for"
            )

    def _may_be_hidden(self, write: int) -> bool:
        """Whether a mark may hide the write where there is no index: a person's, or retention's."""
        return write not in self._judge.waiting or self._stage.expired(self._stage.ledger.writes[write].at_ms)

    def _check_ripe(self, snapshot: TableSnapshot, look: Look, rows: Masks) -> None:
        history, version = self._judge.history, snapshot.version
        for write in sorted(look.ripe):
            if write in rows or (history is None and self._may_be_hidden(write)):
                continue
            if history is not None and version is not None:
                entered = history.meaning.applied.get(write, history.meaning.accounted.get(write))
                if entered is not None and entered <= version:
                    continue
            raise Violation(
                f"a reader that lists does not see write {write}, which was acknowledged long ago"
            )
