"""Clients that append unique values to lists in rows, and read them: what a checker of histories
(``elle.py``) is fed with.

Clients work on a few lists at a time, and leave one for the next when it has become long: so a
history of any length stays one of short lists.

A transaction reads rows of one version and appends to some of them: by cells, which name the
versions that were read, or by an update, which reads again by itself where others were faster. A
``careless`` client names no versions, so that its cells overwrite what others appended meanwhile: a
planted lost update.

Where the table's isolation is ``serializable`` a transaction also reads two rows and appends to one
of them, by a merge that matches both; and it claims to have read only the rows that its operation
has read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Indeterminate, RowConflict, Unavailable
from blockstore.format.definition import Definition
from blockstore.format.identity import RowIds
from blockstore.format.properties import Isolation, Properties
from blockstore.table import Table
from tests.support.elle import FAILED, OK, UNKNOWN, Lists, Transaction

LISTS = pa.list_(pa.int64())
BY_KEY = pa.schema([("id", pa.int64()), ("list", LISTS)])
BY_ID = pa.schema([("list", LISTS)])

WINDOW = 6
"""So many lists are worked on,"""
LONG = 40
"""until the first of them has so many values."""

Note = Callable[[dict[str, Any]], None]
"""Keeps a line of a client's log, before it goes on."""


def definition(*, row_ids: bool, isolation: Isolation | None = None) -> Definition:
    """A table of lists."""
    properties = Properties() if isolation is None else Properties(isolation=isolation)
    if row_ids:
        return Definition.create(BY_ID, row_ids=True, properties=properties)
    return Definition.create(BY_KEY, key="id", properties=properties)


def fill(table: Table, count: int) -> None:
    """Insert empty lists, 0 to ``count``."""
    empty = pa.array([[]] * count, LISTS)
    if isinstance(table.definition.identity, RowIds):
        table.append(pa.table({"list": empty}))
    else:
        table.upsert(pa.table({"id": list(range(count)), "list": empty}))


def lists_of(table: Table) -> Lists:
    """All lists at the newest version."""
    return {key: read for key, (read, _) in _read(table).items()}


class Client:
    """One client of a table of lists, with a log of its own."""

    def __init__(
        self,
        table: Table,
        number: int,
        rng: random.Random,
        note: Note,
        *,
        careless: bool = False,
        first: int = 0,
    ) -> None:
        self.table = table
        self._number = number
        self._rng = rng
        self._note = note
        self._careless = careless
        self._done = first
        self._serializable = is_serializable(table)
        lists = lists_of(table)
        self._count = len(lists)
        long = [key for key, values in lists.items() if len(values) >= LONG]
        self._first = 0
        self._move(max(long, default=-1) + 1)

    def step(self) -> None:
        """One transaction."""
        self._done += 1
        name = f"{self._number}.{self._done}"
        kinds = ["read", "cells", "cells", "update"]
        kind = self._rng.choice(
            [*kinds, "cross", "cross", "cross"] if self._serializable else kinds
        )
        if kind == "read":
            reads = {key: read for key, (read, _) in _read(self.table, self._window).items()}
            self._end(name, OK, reads)
            return
        keys = self._rng.sample(self._window, 1 if kind == "cross" else self._rng.choice([1, 1, 2]))
        appends = {
            key: (self._number * 1_000_000 + self._done) * 10 + place
            for place, key in enumerate(keys)
        }
        self._append(name, kind, appends)

    def cross(self, key: int) -> None:
        """One that appends to this row, and reads one more."""
        self._done += 1
        value = (self._number * 1_000_000 + self._done) * 10
        self._append(f"{self._number}.{self._done}", "cross", {key: value})

    def _append(self, name: str, kind: str, appends: Mapping[int, int]) -> None:
        self._note({"begin": name, "appends": appends})
        reads: dict[int, tuple[int, ...]] = {}
        try:
            does = {"cells": self._cells, "update": self._update, "cross": self._cross}
            does[kind](appends, reads)
        except RowConflict:
            self._end(name, FAILED, reads)
        except (Indeterminate, Unavailable):
            self._end(name, UNKNOWN, reads)
        else:
            self._end(name, OK, reads)

    def _cells(self, appends: Mapping[int, int], reads: dict[int, tuple[int, ...]]) -> None:
        found = _read(self.table, self._window)
        known = appends if self._serializable else found
        reads.update({key: found[key][0] for key in known})
        own = self.table.definition.identity.columns[0]  # type: ignore[union-attr]
        versions = {} if self._careless else {key: {"_version": found[key][1]} for key in appends}
        self.table.set_cells(
            {own: key, "list": [*reads[key], value], **versions.get(key, {})}
            for key, value in appends.items()
        )

    def _update(self, appends: Mapping[int, int], reads: dict[int, tuple[int, ...]]) -> None:
        own = self.table.definition.identity.columns[0]  # type: ignore[union-attr]

        def appended(rows: pa.RecordBatch) -> pa.Array:
            keys, lists = rows.column(own).to_pylist(), rows.column("list").to_pylist()
            reads.update({key: tuple(read) for key, read in zip(keys, lists, strict=True)})
            new = [[*read, appends[key]] for key, read in zip(keys, lists, strict=True)]
            return pa.array(new, LISTS)

        among = ", ".join(map(str, appends))
        self.table.update({"list": appended}, where=f"{own} IN ({among})")

    def _cross(self, appends: Mapping[int, int], reads: dict[int, tuple[int, ...]]) -> None:
        """Read one more row than is appended to."""
        own = self.table.definition.identity.columns[0]  # type: ignore[union-attr]
        (key,) = appends
        other = self._rng.choice([one for one in self._window if one != key])

        def is_key(rows: pa.RecordBatch) -> pa.Array:
            names = [f"target.{own}", "target.list"]
            found = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
            reads.update({one: tuple(read) for one, read in found})
            return pc.equal(rows.column(names[0]), key)

        def appended(rows: pa.RecordBatch) -> pa.Array:
            return pa.array([[*reads[key], appends[key]]] * len(rows), LISTS)

        merge = self.table.merge(pa.table({own: [key, other]}), on=own)
        merge.when_matched_update({"list": appended}, condition=is_key).execute()

    @property
    def _window(self) -> range:
        return range(self._first, min(self._first + WINDOW, self._count))

    def _move(self, first: int) -> None:
        self._first = max(self._first, min(first, self._count - WINDOW))

    def _end(self, name: str, outcome: str, reads: Lists) -> None:
        self._note({"end": name, "outcome": outcome, "reads": reads})
        if len(reads.get(self._first, ())) >= LONG:
            self._move(self._first + 1)


def is_serializable(table: Table) -> bool:
    """Whether its isolation is."""
    return table.definition.properties.isolation is Isolation.SERIALIZABLE


def transactions(log: list[dict[str, Any]]) -> list[Transaction]:
    """The transactions of a client's log; one that did not end is unknown."""
    appends: dict[str, dict[int, int]] = {}
    ended = {}
    for line in log:
        if "begin" in line:
            appends[line["begin"]] = {int(key): value for key, value in line["appends"].items()}
        else:
            ended[line["end"]] = line
    return [
        Transaction(
            name=name,
            appends=appends.get(name, {}),
            outcome=ended[name]["outcome"] if name in ended else UNKNOWN,
            reads={int(key): tuple(read) for key, read in ended[name]["reads"].items()}
            if name in ended
            else {},
        )
        for name in dict.fromkeys([*appends, *ended])
    ]


def _read(table: Table, keys: range | None = None) -> dict[int, tuple[tuple[int, ...], int]]:
    """By key: the list, and the row's version."""
    table.poll()
    own = table.definition.identity.columns[0]  # type: ignore[union-attr]
    where = None if keys is None else f"{own} >= {keys.start} AND {own} < {keys.stop}"
    rows = table.snapshot().scan(columns=[own, "list", "_version"], where=where).to_table()
    return {
        key: (tuple(read), version)
        for key, read, version in zip(
            *(rows[name].to_pylist() for name in (own, "list", "_version")), strict=True
        )
    }
