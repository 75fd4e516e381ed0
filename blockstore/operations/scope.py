"""The rows that a transaction is about, and what of others clashes with it. Pure.

Rules (protocol 3.3 step 3), between the version that the transaction read and the one that it is to
follow:
- Rows that match and were brought by anything but append or discover clash: an overwrite's new
  rows, whatever a restore brought back, and what an operation of a later release added. The caller
  must look again.
- Rows that match and were appended or discovered follow the transaction (``write-serializable``),
  or clash too (``serializable``).
- A merge, a rewrite and a delete bring no rows: the blocks that they left are planned on again.
- Whether a block could hold matching rows is decided by labels, times and statistics; no row is
  read.
- A condition means what it meant over the columns that it was read for: a literal is folded against
  its column's type. Where one of these columns is another now, or has another type, it clashes; the
  other columns may be altered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from blockstore.errors import Conflict
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.fields import field_id
from blockstore.format.properties import Isolation
from blockstore.index import ulids
from blockstore.index.added import AddedBlock
from blockstore.index.blocks import Blocks
from blockstore.index.entry import Entry, Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.predicate import Predicate
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot

_BRING_LATER = frozenset({Operation.APPEND, Operation.DISCOVER})
_BRING_NOTHING = frozenset(
    {Operation.COMPACT, Operation.REWRITE, Operation.DELETE, Operation.REVERT, Operation.EXPIRE}
)


class Moved(Conflict):
    """The table has moved on in a way that only its entries show: look at them, then plan again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The rows for which ``predicate`` is true; ``what`` names the operation for people."""

    what: str
    predicate: Predicate
    isolation: Isolation
    labels: tuple[str, ...] = ()
    """The labels that the predicate may name: also where a part of the table lacks them."""

    def check_state(self, read: State, now: State, seen: frozenset[str] = frozenset()) -> None:
        """Raise unless a plan made on ``read`` may be committed on ``now``: Conflict for a clash,
        Moved where the entries in between must be looked at. Only appends and discoveries add
        blocks of level 1. ``seen`` are blocks that the plan knew of before the index did."""
        self.check_definition(read.definition, now.definition)
        for block in self.may_match(now.definition, _newcomers(read, now)):
            if block.ulid in seen:
                continue
            if block.meta.level == 1 and block.version > read.version:
                self._check_appended(block.meta, block.version, read.version)
            else:
                raise Moved(
                    f"block {block.ulid} could hold rows that this {self.what} changes, and was "
                    f"added after version {read.version}: read the table again and plan again"
                )

    def check_definition(self, read: Definition, now: Definition) -> None:
        """Raise Conflict where a column of the condition, which was judged under ``read``, is
        another one ``now``."""
        if read is now:
            return
        for name in self.predicate.columns:
            then, today = _column(read, name), _column(now, name)
            if then != today:
                raise Conflict(
                    f"column {name!r} was {_said(then)} when this {self.what} read its condition, "
                    f"and is {_said(today, 'not a column')} now: the condition could mean other "
                    "rows; run it again on the table as it is"
                )

    def check_entry(
        self,
        entry: Entry,
        definition: Definition,
        read_version: int,
        seen: frozenset[str] = frozenset(),
    ) -> None:
        """Raise Conflict if an entry after ``read_version`` brought rows that clash;

        ``seen`` as in ``check_state``.
        """
        if entry.operation in _BRING_NOTHING:
            return
        brought = [
            block for block in entry.add if block.ulid not in seen and _brings_rows(entry, block)
        ]
        live = [LiveBlock(meta=block.meta, version=entry.id, first_row_id=0) for block in brought]
        for block in self.may_match(definition, live):
            if entry.operation in _BRING_LATER:
                self._check_appended(block.meta, entry.id, read_version)
            else:
                raise Conflict(
                    f"version {entry.id} ({entry.operation}) brought block {block.ulid}, which "
                    f"could hold rows that this {self.what} changes, after version {read_version}, "
                    "which it has read: look at the table and decide again"
                )

    def may_match(self, definition: Definition, blocks: Iterable[LiveBlock]) -> list[LiveBlock]:
        """Those of ``blocks`` that could hold rows of the scope."""
        listed = list(blocks)
        if not listed or self.predicate.everything:
            return listed
        snapshot = Snapshot(definition=definition, blocks=Blocks.of(listed))
        plan = plan_scan(snapshot, where=self.predicate, labels=self.labels)
        possible = {chunk.block for chunk in plan.chunks}
        return [block for block in listed if block.ulid in possible]

    def _check_appended(self, meta: BlockMeta, version: int, read_version: int) -> None:
        if self.isolation is Isolation.SERIALIZABLE:
            raise Conflict(
                f"version {version} appended block {meta.ulid}, which could hold rows that this "
                f"{self.what} changes, after version {read_version}, which it has read: look at "
                "the table and decide again, or let appends follow it (isolation "
                f"{str(Isolation.WRITE_SERIALIZABLE)!r})"
            )


def _column(definition: Definition, name: str) -> tuple[int | None, pa.DataType] | None:
    """The id and the type of a column of the table;

    None for a label and for what every table has.
    """
    # Regardless of case, as a column takes the name of a label from it.
    found = next((field for field in definition.schema if field.name.lower() == name.lower()), None)
    return None if found is None else (field_id(found), found.type)


def _said(column: tuple[int | None, pa.DataType] | None, other: str = "a label") -> str:
    return other if column is None else f"a column of {column[1]}"


def _brings_rows(entry: Entry, block: AddedBlock) -> bool:
    """Whether the block holds rows that were not in the table, or not in this form; an overwrite's
    rewrites do not: their sources are those of the one block that they replace."""
    if entry.operation != Operation.OVERWRITE:
        return True
    return block.meta.own or block.sources is not None


def _newcomers(read: State, now: State) -> list[LiveBlock]:
    """The blocks that are live now and were not when ``read`` was read, or of which less is hidden
    now."""
    if now.version == read.version:
        return []
    then = ulids.from_arrow(read.blocks.table()["ulid"])
    fresh = ~ulids.holds(then, ulids.from_arrow(now.blocks.table()["ulid"]))
    hidden = (
        read.blocks.table()["excepted"].is_valid().combine_chunks().to_numpy(zero_copy_only=False)
    )
    shown = [
        block
        for before in read.blocks.take(np.flatnonzero(hidden).tolist())
        if (block := now.blocks.get(before.ulid)) is not None
        and not block.excepted >= before.excepted
    ]
    return [*now.blocks.take(np.flatnonzero(fresh).tolist()), *shown]
