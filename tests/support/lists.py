"""Clients that append unique values to lists in rows, and read them: what a checker of histories
(``elle.py``) is fed with.

Clients work on a few lists at a time, and leave one for the next when it has become long: so a
history of any length stays one of short lists.

A transaction reads rows of one version and appends to some of them: by cells, which name the
versions that were read, or by an update, which reads again by itself where others were faster. A
``careless`` client names no versions, so that its cells overwrite what others appended meanwhile: a
planted lost update.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from blockstore.errors import Indeterminate, RowConflict, Unavailable
from blockstore.format.definition import Definition
from blockstore.format.identity import RowIds
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


def definition(*, row_ids: bool) -> Definition:
    """A table of lists."""
    return (
        Definition.create(BY_ID, row_ids=True) if row_ids else Definition.create(BY_KEY, key="id")
    )


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
        self._table = table
        self._number = number
        self._rng = rng
        self._note = note
        self._careless = careless
        self._done = first
        lists = lists_of(table)
        self._count = len(lists)
        long = [key for key, values in lists.items() if len(values) >= LONG]
        self._first = 0
        self._move(max(long, default=-1) + 1)

    def step(self) -> None:
        """One transaction."""
        self._done += 1
        name = f"{self._number}.{self._done}"
        kind = self._rng.choice(["read", "cells", "cells", "update"])
        reads: dict[int, tuple[int, ...]]
        if kind == "read":
            reads = {key: read for key, (read, _) in _read(self._table, self._window).items()}
            self._end(name, OK, reads)
            return
        keys = self._rng.sample(self._window, self._rng.choice([1, 1, 2]))
        appends = {
            key: (self._number * 1_000_000 + self._done) * 10 + place
            for place, key in enumerate(keys)
        }
        self._note({"begin": name, "appends": appends})
        reads = {}
        try:
            (self._cells if kind == "cells" else self._update)(appends, reads)
        except RowConflict:
            self._end(name, FAILED, reads)
        except (Indeterminate, Unavailable):
            self._end(name, UNKNOWN, reads)
        else:
            self._end(name, OK, reads)

    def _cells(self, appends: Mapping[int, int], reads: dict[int, tuple[int, ...]]) -> None:
        found = _read(self._table, self._window)
        reads.update({key: read for key, (read, _) in found.items()})
        own = self._table.definition.identity.columns[0]  # type: ignore[union-attr]
        versions = {} if self._careless else {key: {"_version": found[key][1]} for key in appends}
        self._table.set_cells(
            {own: key, "list": [*reads[key], value], **versions.get(key, {})}
            for key, value in appends.items()
        )

    def _update(self, appends: Mapping[int, int], reads: dict[int, tuple[int, ...]]) -> None:
        own = self._table.definition.identity.columns[0]  # type: ignore[union-attr]

        def appended(rows: pa.RecordBatch) -> pa.Array:
            keys, lists = rows.column(own).to_pylist(), rows.column("list").to_pylist()
            reads.update({key: tuple(read) for key, read in zip(keys, lists, strict=True)})
            new = [[*read, appends[key]] for key, read in zip(keys, lists, strict=True)]
            return pa.array(new, LISTS)

        among = ", ".join(map(str, appends))
        self._table.update({"list": appended}, where=f"{own} IN ({among})")

    @property
    def _window(self) -> range:
        return range(self._first, min(self._first + WINDOW, self._count))

    def _move(self, first: int) -> None:
        self._first = max(self._first, min(first, self._count - WINDOW))

    def _end(self, name: str, outcome: str, reads: Lists) -> None:
        self._note({"end": name, "outcome": outcome, "reads": reads})
        if len(reads.get(self._first, ())) >= LONG:
            self._move(self._first + 1)


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
