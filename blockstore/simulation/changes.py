"""What operations on rows that have an identity mean: pure functions from the rows that an
operation has read to the rows that it writes.

Rules:
- ``effect`` is None where the operation must be refused: no entry may hold it then.
- An operation that has not read (``reads``) means the same whatever is there.
- A row that is as it should become gets no version (``left``). That holds only while no other
  operation touches it, so it is a read: at the version before the entry the row was so.
- A row that is not there may be passed over by a delete of its id, which may as well write a
  tombstone: that is ``open``. So is a row of a revert that was deleted and is not there any more,
  not even as a tombstone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from blockstore.index.entry import Operation
from blockstore.simulation.images import Image, Row


@dataclass(frozen=True, slots=True)
class Event:
    """What an entry did to a row."""

    version: int
    image: Image | None
    expired: bool = False
    """Whether retention, or a person, took the row away: that is no write."""


Chain = tuple[Event, ...]
"""All that happened to a row, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What an operation has read: the table at a version, and before."""

    version: int
    rows: Mapping[int, Row]
    chains: Mapping[int, Chain]
    at: Mapping[int, Mapping[int, Row]]
    """The rows of other versions."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What an operation writes."""

    changed: Mapping[int, Image | None]
    """By identity the new image, or a tombstone."""
    fresh: tuple[Image, ...] = ()
    """Rows that get ids of their own."""
    open: frozenset[int] = frozenset()
    """Rows that it may have passed over, or deleted."""
    left: frozenset[int] = frozenset()
    """Rows that it has found as they should become."""

    @property
    def may_be_nothing(self) -> bool:
        """Whether the operation may end without an entry."""
        return not self.fresh and self.changed.keys() <= self.open


@dataclass(frozen=True)
class Where:
    """A condition; without a column it is true for every row."""

    column: str | None
    value: int = 0

    @property
    def text(self) -> str:
        """As operations take it."""
        return "true" if self.column is None else f"{self.column} = {self.value}"

    def meets(self, image: Image) -> bool:
        """Whether it is true for a row."""
        return self.column is None or getattr(image, self.column) == self.value


class RowOperation(ABC):
    """One operation."""

    operation: Operation
    reads = True

    @abstractmethod
    def effect(self, past: Past) -> Effect | None:
        """What it writes."""


@dataclass(frozen=True)
class Upsert(RowOperation):
    """Rows in place of those of their keys, by an operation that reads nothing."""

    images: tuple[Image, ...]
    operation = Operation.UPSERT
    reads = False

    def effect(self, past: Past) -> Effect:
        return Effect({image.key: image for image in self.images})


@dataclass(frozen=True)
class Insert(RowOperation):
    """Rows under keys that do not exist."""

    images: tuple[Image, ...]
    ignores: bool
    operation = Operation.APPEND

    def effect(self, past: Past) -> Effect | None:
        new = {image.key: image for image in self.images if image.key not in past.rows}
        return None if len(new) < len(self.images) and not self.ignores else Effect(new)


@dataclass(frozen=True)
class Update(RowOperation):
    """A new cell in every row that meets a condition."""

    where: Where
    cell: int
    operation = Operation.UPDATE

    def effect(self, past: Past) -> Effect:
        return _differing(
            {
                one: row.image._replace(cell=self.cell)
                for one, row in past.rows.items()
                if self.where.meets(row.image)
            },
            past,
        )


@dataclass(frozen=True)
class Delete(RowOperation):
    """No row is left that meets a condition."""

    where: Where
    operation = Operation.DELETE

    def effect(self, past: Past) -> Effect:
        return Effect({one: None for one, row in past.rows.items() if self.where.meets(row.image)})


@dataclass(frozen=True)
class DeleteRows(RowOperation):
    """No row with one of these identities is left; reads nothing."""

    identities: tuple[int, ...]
    keyed: bool
    operation = Operation.DELETE
    reads = False

    def effect(self, past: Past) -> Effect:
        absent = () if self.keyed else (one for one in self.identities if one not in past.rows)
        return Effect(dict.fromkeys(self.identities), open=frozenset(absent))


@dataclass(frozen=True)
class SetCells(RowOperation):
    """New cells of given rows, of which some must have a given version."""

    cells: tuple[tuple[int, int | None, int], ...]
    """Identity, expected version, cell."""
    operation = Operation.UPDATE

    def effect(self, past: Past) -> Effect | None:
        changed: dict[int, Image | None] = {}
        for one, expected, cell in self.cells:
            row = past.rows.get(one)
            if row is None or expected not in (None, row.version):
                return None
            changed[one] = row.image._replace(cell=cell)
        return _differing(changed, past)


@dataclass(frozen=True)
class PutRows(RowOperation):
    """Complete rows: new ones, and in place of given ones, of which some must have a given
    version."""

    rows: tuple[tuple[int | None, int | None, Image], ...]
    """Identity (None: a new row id), expected version, image."""
    keyed: bool
    operation = Operation.UPSERT

    def effect(self, past: Past) -> Effect | None:
        changed: dict[int, Image | None] = {}
        for one, expected, image in self.rows:
            if one is None:
                continue
            row = past.rows.get(one)
            if expected is None:
                if row is None and not self.keyed:
                    return None
            elif row is None or row.version != expected:
                return None
            changed[one] = image
        if self.keyed:
            # A row without a version is not looked up: it is put whatever is there.
            looked_up = {image.key for _, expected, image in self.rows if expected is not None}
            return _differing(changed, past, looked_up)
        return _differing(
            changed, past, fresh=tuple(image for one, _, image in self.rows if one is None)
        )


@dataclass(frozen=True)
class Merge(RowOperation):
    """Source rows, matched by key: a matched row takes the cell, or is deleted if the cell is low;
    others are inserted."""

    images: tuple[Image, ...]
    low: int
    keyed: bool
    operation = Operation.MERGE

    def effect(self, past: Past) -> Effect:
        source = {image.key: image for image in self.images}
        changed: dict[int, Image | None] = {}
        for one, row in past.rows.items():
            matched = source.get(row.image.key)
            if matched is not None:
                assert matched.cell is not None, "a source row has a cell"
                deletes = matched.cell < self.low
                changed[one] = None if deletes else row.image._replace(cell=matched.cell)
        known = {row.image.key for row in past.rows.values()}
        new = [image for image in self.images if image.key not in known]
        if self.keyed:
            return Effect({**changed, **{image.key: image for image in new}})
        return Effect(changed, tuple(new))


@dataclass(frozen=True)
class Overwrite(RowOperation):
    """Rows in place of all those that meet a condition, or that are of the same write."""

    where: Where
    images: tuple[Image, ...]
    keyed: bool
    operation = Operation.OVERWRITE

    @property
    def text(self) -> str | None:
        """The condition: new rows must meet it too."""
        if self.where.column is None:
            return None
        return f"{self.where.text} or write = {self.images[0].write}"

    def effect(self, past: Past) -> Effect | None:
        own = self.images[0].write
        replaced = {
            one
            for one, row in past.rows.items()
            if self.where.meets(row.image) or row.image.write == own
        }
        changed: dict[int, Image | None] = dict.fromkeys(replaced)
        if not self.keyed:
            return Effect(changed, self.images)
        for image in self.images:
            if image.key in past.rows and image.key not in replaced:
                return None
            changed[image.key] = image
        return Effect(changed)


@dataclass(frozen=True)
class Restore(RowOperation):
    """Every row as it was at a version."""

    version: int
    operation = Operation.RESTORE

    def effect(self, past: Past) -> Effect:
        then = past.at[self.version]
        changed: dict[int, Image | None] = {
            one: row.image
            for one, row in then.items()
            if one not in past.rows or past.rows[one].version != row.version
        }
        changed.update({one: None for one in past.rows if one not in then})
        return Effect(changed)


@dataclass(frozen=True)
class Revert(RowOperation):
    """The rows that the writes of some versions left, as they were before."""

    versions: frozenset[int]
    operation = Operation.REVERT

    def effect(self, past: Past) -> Effect:
        changed: dict[int, Image | None] = {}
        passed: set[int] = set()
        for one, chain in past.chains.items():
            events = [event for event in chain if event.version <= past.version]
            undone = []
            while events and events[-1].version in self.versions and not events[-1].expired:
                undone.append(events.pop())
            if not undone:
                continue
            former = events[-1].image if events else None
            if former is not None or one in past.rows:
                changed[one] = former
            if any(event.image is None for event in undone):
                passed.add(one)
        return Effect(changed, open=frozenset(passed))


def _differing(
    changed: Mapping[int, Image | None],
    past: Past,
    looked_up: Collection[int] | None = None,
    fresh: tuple[Image, ...] = (),
) -> Effect:
    """Only what differs from what was read is written; of ``looked_up`` rows (None: all)."""
    left = frozenset(
        one
        for one, image in changed.items()
        if (looked_up is None or one in looked_up)
        and (row := past.rows.get(one)) is not None
        and row.image == image
    )
    written = {one: image for one, image in changed.items() if one not in left}
    return Effect(written, fresh, left=left)


@dataclass
class Counted:
    """The rows of an effect, as an operation reports them."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0

    @classmethod
    def of(cls, effect: Effect, rows: Mapping[int, Row], entry: Collection[int]) -> Counted:
        """Those of an effect on rows; ``entry`` are the rows that its entry has."""
        put = [one for one, image in effect.changed.items() if image is not None]
        updated = sum(one in rows for one in put)
        return cls(
            inserted=len(put) - updated + len(effect.fresh),
            updated=updated,
            deleted=sum(
                image is None and (one in entry or one not in effect.open)
                for one, image in effect.changed.items()
            ),
            unchanged=len(effect.left),
        )
