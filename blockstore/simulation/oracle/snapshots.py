"""What a reader may see.

Promises:
- A snapshot by the index shows the rows of its version, and that is no older than the newest one
  when it was requested.
- A snapshot by listing shows those rows, and next to them complete writes that no entry of its
  version names, each once: none that was refused, and every acknowledged one that is old enough to
  be ready (R2: a copy of meta.json's PUT that comes late makes the block wait once more).
- What was read is what the snapshot says; a snapshot can be read until ``delete_delay`` after it
  was taken (R11, R10).

Where the history is replaced:
- A snapshot is a version of one history: of that which is there, of one that was there while it was
  taken, or of the one that the handle held before. Never of one that was replaced before the
  handle's last result.
- A handle that follows the table shows a history that was there during the call. One that only
  polls may continue with the version that it holds, as long as there is no next entry.
- What a listing shows next to the versions of another history, or of two, is not judged; nor is
  whether it can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from blockstore.format.identity import VERSION
from blockstore.scan.view import TableSnapshot
from blockstore.simulation.faults import STALE_MS
from blockstore.simulation.ledger import Fate
from blockstore.simulation.oracle.meaning import Version
from blockstore.simulation.report import Section
from blockstore.simulation.rows import WHOLE, Masks, masks_of
from blockstore.simulation.schedule import HOUR_MS
from blockstore.simulation.stage import Stage
from blockstore.simulation.versions import COLUMNS, identity_column, rows_read
from blockstore.simulation.violation import Violation

_SLACK_MS = HOUR_MS + 60_000
"""By so much a writer's clock may be ahead, and its block be ready later."""


@dataclass(frozen=True, slots=True)
class Look:
    """The moment at which a reader began to look."""

    at_ms: int
    version: int
    """The newest one then."""
    begun: int
    """The era in which the reader began: before it followed the table."""
    era: int
    ripe: frozenset[int]
    """Acknowledged writes that must be ready by then, although no entry has named them."""


class Snapshots:
    """Judges the snapshots of one run's readers."""

    def __init__(self, stage: Stage, *, since: int, follows: bool = True) -> None:
        """``since`` is the era in which the reader's handle was opened;

        ``follows``: before every look it follows the table.
        """
        self._stage = stage
        self._since = since
        self.era = since
        """That to whose history the last snapshot belongs."""
        self._follows = follows
        self._judge = stage.judge
        self._ripe_ms = 1000 * stage.properties.sync_delay_s + STALE_MS + _SLACK_MS

    def look(self, begun: int | None = None) -> Look:
        """Before a reader, which began in the era ``begun``, requests a snapshot."""
        now = self._stage.scheduler.now_ms
        history, writes = self._judge.history, self._stage.ledger.writes
        ripe = frozenset(
            number
            for number in self._judge.waiting
            if (at := writes[number].acknowledged_ms) is not None
            and max(at, self._judge.directories.lain_since_ms(number)) + self._ripe_ms < now
        )
        version = 0 if history is None else history.latest.state.version
        era = self._stage.era
        return Look(now, version, era if begun is None else begun, era, ripe)

    def expected(
        self, snapshot: TableSnapshot, look: Look, *, by_listing: bool, latest: bool = True
    ) -> Masks | None:
        """The rows that reading the snapshot must give; None if it is a mixture of two histories,
        which is not judged. Raises Violation if it is not a snapshot to be had."""
        rows: Masks = {}
        if self._judge.history is not None:
            era = self._era_of(snapshot, look, latest=latest)
            version = snapshot.version
            assert version is not None
            # An idle handle of an earlier table may be at the same version with the same blocks,
            # and knows another schema.
            if by_listing and not self._since == era == look.era == self._stage.era:
                self._stage.report.count(Section.CHECKS, "snapshots by listing of two histories")
                return None
            rows = dict(self._versions(era)[version].rows)
        self._add_listed(snapshot, rows)
        if by_listing:
            self._check_ripe(snapshot, look, rows)
        return rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a reader reads."""
        kind = self._stage.kind
        if not kind.has_identity:
            return ("write", "row")
        return tuple(dict.fromkeys((identity_column(kind), VERSION, *COLUMNS)))

    def check_rows(self, table: pa.Table, expected: Mapping[int, object]) -> None:
        """What was read, against what had to be."""
        found: Mapping[int, object] = (
            rows_read(table, self._stage.kind)
            if self._stage.kind.has_identity
            else masks_of(table["write"].to_pylist(), table["row"].to_pylist(), "a reader's answer")
        )
        if found != expected:
            wrong = sorted(
                one for one in {*found, *expected} if found.get(one) != expected.get(one)
            )
            raise Violation(
                f"a reader read other rows than its snapshot says, {wrong[:10]}: "
                f"{found.get(wrong[0])}, expected {expected.get(wrong[0])}"
            )

    def _era_of(self, snapshot: TableSnapshot, look: Look, *, latest: bool) -> int:
        """The era to whose history the snapshot belongs: the last one possible."""
        first = look.begun if self._follows else self._since
        problems = {
            era: self._problem(snapshot, look, era, latest=latest)
            for era in range(first, self._stage.era + 1)
        }
        fitting = [era for era, problem in problems.items() if problem is None]
        if not fitting:
            shown = "; ".join(f"era {era}: {problem}" for era, problem in problems.items())
            raise Violation(
                f"a reader that began in era {look.begun} got what no history has: {shown}"
            )
        if latest:
            # Two histories may have a version that is the same, and the past is read from what is
            # there: the handle is of one.
            self._since = fitting[0]
        if fitting[-1] < self._stage.era:
            self._stage.report.count(Section.CHECKS, "snapshots of a replaced history")
        self.era = fitting[-1]
        return self.era

    def _problem(
        self, snapshot: TableSnapshot, look: Look, era: int, *, latest: bool
    ) -> str | None:
        """Why the snapshot cannot be of the history of that era; None if it can."""
        version = snapshot.version
        assert version is not None
        found = self._versions(era).get(version)
        if found is None or snapshot.snapshot.blocks != found.state.blocks:
            return f"a reader holds other blocks than version {version} has"
        alone = latest and look.begun == self._stage.era
        if alone and era == look.era and version < look.version:
            return (
                f"a reader was shown version {version}, and version {look.version} was there before"
            )
        if alone and era < look.begun and version < look.version:
            return (
                f"a reader was shown version {version} of a history that was replaced, and entry "
                f"{version + 1} of another was there before"
            )
        return None

    def _versions(self, era: int) -> Mapping[int, Version]:
        history = self._judge.history
        assert history is not None, "only a table with an index has versions"
        return (
            history.versions if era == self._stage.era else self._stage.judge.replaced[era].versions
        )

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
            raise Violation(
                f"a reader that lists sees rows {mask:04b} of write {write}, not all of it"
            )
        history, version = self._judge.history, snapshot.version
        if history is None or version is None:
            return
        entered = history.meaning.applied.get(write, history.meaning.accounted.get(write))
        if entered is not None and entered <= version:
            raise Violation(
                f"a reader at version {version} lists write {write}, which version {entered} "
                "accounts for"
            )

    def _may_be_hidden(self, write: int) -> bool:
        """Whether a mark may hide the write where there is no index: a person's, or retention's."""
        return write not in self._judge.waiting or self._stage.expired(
            self._stage.ledger.writes[write].at_ms
        )

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
