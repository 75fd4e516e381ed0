"""The two disasters that replace a table's history while all processes work on it.

- *The bucket is put back* to an older state of itself: blocks, marks, entries, checkpoints,
  boundary, all at once.
- *The table is created again*: everything is dropped, and there is another entry 1, perhaps with
  another schema.

Rules:
- A disaster strikes between two requests: at any moment, just before the PUT of an entry is
  applied, just before the request that follows on one (the look after it), or at night. Writers,
  readers, compactors and people keep their handles.
- What is on its way is lost, or arrives in what is there by then. A boundary on its way is lost:
  its ETag is a hash of its digits, so it would fit into a bucket that has nothing of it. So is a
  meta.json: its chunks may be gone, and another attempt under the same ULID be complete by then.
- A copy from which a history continued once that was then replaced by another copy is put back only
  while all processes rest. Twice between the two looks of one commit would show that commit its own
  history, from which its entry is missing.
- A block may be gone by the time its entry comes, where the history is as it was when the block was
  uploaded: the chain knows entries only. A person brings it back from what was replaced.
- An entry above a gap cannot be distinguished from a lost one. A person removes it after a while;
  until then the index is Corrupt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.names import (
    DELETION_MARK,
    META,
    NO_COMPACT_MARK,
    checkpoint_key,
    entry_key,
    meta_key,
    object_key,
    parse_entry,
    split_block_key,
)
from blockstore.simulation.draw import Draw
from blockstore.simulation.faults import Ask
from blockstore.simulation.ground import Kind
from blockstore.simulation.oracle.books import Books, brought_back, remembered, replaced
from blockstore.simulation.report import Section
from blockstore.simulation.rows import SCHEMA
from blockstore.simulation.stage import Stage
from blockstore.simulation.store import StoreCopy
from blockstore.simulation.versions import CELL

_SHARE = 0.5
"""In how many runs on a table with an index the history is replaced."""
_STEPS = (60, 100, 200, 350)
"""So many steps are between two disasters, on average; a run draws one of these."""
_PATIENCE = 80
"""After so many steps the moment that was drawn is no longer waited for."""
_COPY_STEPS = (5, 60)
_COPIES = 6
_ENDED = 32
"""So many replaced buckets are kept, for a person who brings back what a stalled writer names."""
_MEND_STEPS = (1, 60)
_LOST = 0.4
"""How much of what is on its way is lost."""


class Strike(StrEnum):
    """What is done to the table."""

    PUT_BACK = "the bucket was put back"
    MADE_ANEW = "the table was made anew"


class _Moment(StrEnum):
    """When it is done."""

    ANY = "any"
    BEFORE_ENTRY = "before the PUT of an entry"
    AFTER_ENTRY = "after the PUT of an entry"
    NIGHT = "at night"


@dataclass(frozen=True, slots=True)
class _Backup:
    store: StoreCopy
    books: Books


class Replacements:
    """The disasters of one run."""

    def __init__(self, stage: Stage, draw: Draw) -> None:
        self._stage = stage
        self._draw = draw
        self._mean = draw.choice(_STEPS)
        self._nothing = remembered(stage.judge, stage.ledger)
        self._copies: list[_Backup] = []
        """Older states of the history that is there."""
        self._left: list[_Backup] = []
        """States of histories that were replaced."""
        self._ended: list[StoreCopy] = []
        """What the bucket held when it was replaced, the last times."""
        self._copy_at = 0
        self._mend_at: int | None = None
        self._after_entry = False
        self._due = 0
        self._moment = _Moment.ANY
        self._plan()

    def pass_by(self, ask: Ask, key: str) -> None:
        """A request is about to be applied."""
        if self._stage.finishing:
            self.mend()
            return
        steps = self._stage.scheduler.steps
        if steps >= self._copy_at:
            self._copy()
        if self._mend_at is not None and steps >= self._mend_at:
            self.mend()
        if steps >= self._due and (self._is_moment(ask, key) or steps >= self._due + _PATIENCE):
            self._strike(asleep=False)
        self._after_entry = _is_entry(ask, key)

    def at_night(self) -> None:
        """A night is over; no process has begun anything yet."""
        tasks = self._stage.scheduler.tasks
        asleep = all(task.idle or task.dead or task.ended for task in tasks)
        if self._stage.scheduler.steps >= self._due and not self._stage.finishing:
            self._strike(asleep=asleep)

    def bring_back(self, ulids: Iterable[str]) -> None:
        """A person puts back what is gone of blocks that were complete in a bucket which was
        replaced."""
        for ulid in ulids:
            directory = self._stage.judge.directories.by_ulid.get(ulid)
            if directory is not None and directory.complete:
                continue
            copy = next(
                (one for one in reversed(self._ended) if meta_key(ulid) in one.objects), None
            )
            if copy is None:
                continue
            self._event("block brought back by a person")
            lost = [key for key in sorted(copy.objects) if key.startswith(object_key(ulid, ""))]
            for key in sorted(lost, key=lambda key: key == meta_key(ulid)):
                if split_block_key(key) not in ((ulid, DELETION_MARK), (ulid, NO_COMPACT_MARK)):
                    self._stage.store.put(key, copy.objects[key].data)

    def mend(self) -> None:
        """A person removes the entries above a gap."""
        self._mend_at = None
        history = self._stage.judge.history
        assert history is not None, "only a table with an index has a history"
        for entry in sorted(history.strays):
            self._event("entry above a gap removed by a person")
            self._stage.store.delete([entry_key(entry)])
        for version in sorted(history.false_checkpoints):
            self._event("checkpoint of a replaced history removed by a person")
            self._stage.store.delete([checkpoint_key(version)])

    def _is_moment(self, ask: Ask, key: str) -> bool:
        if self._moment is _Moment.BEFORE_ENTRY:
            return _is_entry(ask, key)
        if self._moment is _Moment.AFTER_ENTRY:
            return self._after_entry
        return self._moment is _Moment.ANY

    def _strike(self, *, asleep: bool) -> None:
        stage, draw = self._stage, self._draw
        copies = [*self._copies, *self._left] if asleep else self._copies
        stage.judge.replaced.append(replaced(stage.judge, stage.ledger))
        stage.era += 1
        self._ended = [*self._ended, stage.store.copy()][-_ENDED:]
        if copies and draw.chance(0.5):
            self._put_back(draw.choice(copies))
        else:
            self._make_anew()
        stage.scheduler.lose(self._is_lost)
        self._plan()

    def _put_back(self, backup: _Backup) -> None:
        stage = self._stage
        fresh = self._draw.chance(0.5)
        stage.store.put_back(backup.store, fresh=fresh)
        brought_back(stage.judge, stage.ledger, backup.books)
        if fresh:
            stage.judge.directories.written_anew()
        at = next((at for at, one in enumerate(self._copies) if one is backup), -1)
        # What continued from there is another history by now, and so is all that did not lead
        # there.
        self._leave(at + 1)
        if at < 0:
            self._copies = [backup]
        self._note(Strike.PUT_BACK)

    def _make_anew(self) -> None:
        stage = self._stage
        stage.store.put_back(StoreCopy({}), fresh=False)
        brought_back(stage.judge, stage.ledger, self._nothing, empty=True)
        self._leave(0)
        self._note(Strike.MADE_ANEW)
        fields = [pa.field(f"other_{stage.era}", pa.int64())] if self._draw.chance(0.5) else []
        index_log.create(stage.store, stage.world(), definition_of(stage, fields))

    def _leave(self, first: int) -> None:
        self._left = [*self._left, *self._copies[first:]][-_COPIES:]
        self._copies = self._copies[:first]

    def _copy(self) -> None:
        stage = self._stage
        self._copies.append(_Backup(stage.store.copy(), remembered(stage.judge, stage.ledger)))
        self._copies = self._copies[-_COPIES:]
        self._copy_at = stage.scheduler.steps + self._draw.integer(*_COPY_STEPS)

    def _plan(self) -> None:
        steps = self._stage.scheduler.steps
        self._due = steps + self._draw.integer(1, 2 * self._mean)
        self._moment = self._draw.choice(list(_Moment))
        self._mend_at = steps + self._draw.integer(*_MEND_STEPS)

    def _is_lost(self, what: str) -> bool:
        """Whether a request on its way is lost with the history for which it was meant."""
        alone = what.startswith("put_if_match ") or (
            what.startswith("put ") and what.endswith(META)
        )
        return alone or self._draw.chance(_LOST)

    def _note(self, strike: Strike) -> None:
        self._event(strike)
        self._stage.note("a person", strike)

    def _event(self, name: str) -> None:
        self._stage.report.count(Section.EVENTS, name)


def is_replaced(seed: int) -> bool:
    """Whether the history is replaced in a seed's run, where that is about a table with an
    index."""
    return Draw(seed, "is replaced").chance(_SHARE)


def definition_of(stage: Stage, more: list[pa.Field] | None = None) -> Definition:
    """The definition of the run's table, perhaps with more columns."""
    kind = stage.kind
    schema = pa.schema([*SCHEMA, *([CELL] if kind.has_identity else []), *(more or [])])
    return Definition.create(
        schema,
        time_column="at",
        sort_by=["key", "at"],
        properties=stage.properties,
        row_ids=kind is Kind.WITH_IDS,
        key="key" if kind is Kind.KEYED else (),
    )


def _is_entry(ask: Ask, key: str) -> bool:
    return ask is Ask.CREATE and parse_entry(key) is not None
