"""Tables whose rows change, each made with the oracle that says which rows are current.

The oracle keeps every version of every row in a plain list, with the block and the place that it
lies at. What is current follows from that list alone, and never from what a reader read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from blockstore.format.block import BlockKind, Parent, StreamKey, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.document import sealed
from blockstore.format.identity import Key, stored_columns
from blockstore.format.meta import encode
from blockstore.format.new_block import block_meta
from blockstore.format.schema import with_reserved
from blockstore.index.entry import Operation
from blockstore.index.touches import packed
from blockstore.names import meta_key
from blockstore.scan.identities import hashes
from tests.golden.oracle import Block, Columns, Oracle, Row
from tests.golden.plain import array_of, sorted_rows
from tests.golden.vectors_indexed import SIMPLE, rows

Labels = tuple[tuple[str, str], ...]
Named = tuple[Labels, tuple[object, ...]]
"""A row: the labels of its stream, and its identity."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of one row, and where it lies."""

    named: Named
    number: int
    source: str
    row: Row | None
    """None: a tombstone."""
    block: Block
    place: int


class Changing(Oracle):
    """One table whose rows change."""

    def __init__(
        self, seed: int, columns: Columns, *, row_ids: bool = False, key: Sequence[str] = ()
    ) -> None:
        self.versions: list[Version] = []
        super().__init__(seed, columns, sort_by=["id"], row_ids=row_ids, key=key)
        self.told["requires"] = ["chain/0.2", "rows/0.2"]
        self.states[1]["state"]["requires"] = ["chain/0.2", "rows/0.2"]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key; none where rows have ids."""
        identity = self.definition.identity
        return identity.columns if isinstance(identity, Key) else ()

    def insert(self, new: Sequence[Row]) -> Block:
        """New rows of a table with row ids."""
        self.world.clock.sleep(1)
        first = self.told["next_row_id"]
        held = [(first + place, row) for place, row in enumerate(new)]
        return self._publish(Operation.APPEND, held, BlockKind.PLAIN, {})

    def change(
        self,
        operation: Operation,
        held: Sequence[tuple[object, Row | None]],
        labels: Mapping[str, str] | None = None,
    ) -> Block:
        """New images of rows, or tombstones, in the order of the sort key, nulls last; each with
        its row id (None: a new row), or its key."""
        self.world.clock.sleep(1)
        return self._publish(operation, held, BlockKind.CHANGES, labels or {})

    def merge(
        self,
        *blocks: Block,
        kind: BlockKind = BlockKind.PLAIN,
        without: Iterable[Version] = (),
        history: Iterable[Version] = (),
    ) -> Block | None:
        """Put a merge in the place of blocks, without some versions, of which ``history`` move into
        a block of their own. Returns the merge; None if nothing is left."""
        self.world.clock.sleep(1)
        gone, former = [*without, *history], list(history)
        inside = [one for one in self.versions if one.block in blocks]
        kept = [one for one in inside if one not in gone]
        made = [self._carried(kept, blocks, kind)] if kept else []
        if former:
            made.append(self._carried(former, (), BlockKind.HISTORY))
        away = [block.ulid for block in blocks]
        moved = [one for one in self.versions if one not in inside]
        for block, some in zip(made, filter(None, (kept, former)), strict=True):
            ordered = sorted(some, key=self._by_id)
            moved += [replace(one, block=block, place=place) for place, one in enumerate(ordered)]
        self.versions = moved
        self.commit(Operation.COMPACT, add=made, remove=tuple(away))
        self.note(add=made, remove=away)
        return made[0] if kept else None

    def of(self, *blocks: Block, current: bool | None = None) -> list[Version]:
        """The versions in some blocks; those that are current, or that are not."""
        now = self._current()
        inside = [one for one in self.versions if one.block in blocks]
        return [one for one in inside if current is None or (one in now) == current]

    def rows(self) -> list[Row]:
        """The rows that are shown."""
        labels = {name for block in self.blocks.values() for name in block.labels}
        return sorted_rows(self._shown(one, sorted(labels)) for one in self._current())

    def _current(self) -> list[Version]:
        newest: dict[Named, Version] = {}
        for one in self.versions:
            if one.block.meta is not None and one.block.meta.kind is BlockKind.HISTORY:
                continue
            if one.named not in newest or newest[one.named].number < one.number:
                newest[one.named] = one
        return [one for one in newest.values() if one.row is not None]

    def _shown(self, one: Version, labels: Sequence[str]) -> Row:
        assert one.row is not None
        row_id: object = None
        if not self.key:
            row_id = one.named[1][0]
        elif one.block.level == 1:
            assert one.block.first_row_id is not None
            row_id = one.block.first_row_id + one.place
        told = {name: one.row.get(name) for name, _, _ in self.columns}
        told |= {name: one.block.labels.get(name) for name in labels}
        return told | {"_source": one.source, "_row_id": row_id, "_version": one.number}

    def _publish(
        self,
        operation: Operation,
        held: Sequence[tuple[object, Row | None]],
        kind: BlockKind,
        labels: Mapping[str, str],
    ) -> Block:
        reserved = [] if kind is BlockKind.PLAIN else [*([] if self.key else ["_row_id"])]
        columns: dict[str, list[object]] = {name: [] for name in self.definition.schema.names}
        for one, row in held:
            own = self._key_of(one) if row is None else row
            for name, values in columns.items():
                values.append(own.get(name))
        ids = [one for one, _ in held]
        extra = {"_row_id": pa.array(ids, pa.int64())} if reserved else {}
        if kind is BlockKind.CHANGES:
            extra["_deleted"] = pa.array([row is None for _, row in held], pa.bool_())
        block = self._upload(columns, extra, kind=kind, labels=labels)
        block.rows = [(block.ulid, row or {}) for _, row in held]
        first = self.told["next_row_id"]
        stream: Labels = tuple(sorted(labels.items()))
        named = [
            (stream, self._identity(first + place if one is None else one))
            for place, (one, _) in enumerate(held)
        ]
        touched = None
        if kind is BlockKind.CHANGES:
            known = [name[1] for name, (one, _) in zip(named, held, strict=True) if one is not None]
            touched = packed(self._hashes(stream, known))
        self.commit(operation, add=[block], touched=touched)
        self.versions += [
            Version(
                named=name,
                number=self.version + 1,
                source=block.ulid,
                row=row,
                block=block,
                place=place,
            )
            for place, (name, (_, row)) in enumerate(zip(named, held, strict=True))
        ]
        self.note(add=[block])
        return block

    def _carried(self, some: Sequence[Version], blocks: Sequence[Block], kind: BlockKind) -> Block:
        """A block of level 2 of some versions, in the order of the sort key."""
        ordered = sorted(some, key=self._by_id)
        columns: dict[str, list[object]] = {name: [] for name in self.definition.schema.names}
        for one in ordered:
            own = self._key_of(one.named[1]) if one.row is None else one.row
            for name, values in columns.items():
                values.append(own.get(name))
        ulid = None if blocks else self.world.ids.ulid()
        sources = [one.source for one in ordered] if blocks else [ulid] * len(ordered)
        extra = {
            "_source": pa.array(sources, pa.string()),
            "_row_id": pa.array([None if self.key else one.named[1][0] for one in ordered]),
            "_version": pa.array([one.number for one in ordered], pa.int64()),
            "_deleted": pa.array([one.row is None for one in ordered], pa.bool_()),
        }
        identity = self.definition.identity
        assert identity is not None
        wanted = ["_source", *stored_columns(identity)]
        wanted += [] if kind is BlockKind.PLAIN else ["_deleted"]
        labels = dict(ordered[0].named[0])
        block = self._upload(
            columns,
            {name: extra[name] for name in wanted},
            kind=kind,
            labels=labels,
            parents=blocks,
            ulid=ulid,
        )
        block.rows = [(source or block.ulid, one.row or {}) for source, one in zip(
            sources, ordered, strict=True
        )]  # fmt: skip
        return block

    def _upload(
        self,
        columns: Mapping[str, list[object]],
        extra: Mapping[str, pa.Array],
        *,
        kind: BlockKind,
        labels: Mapping[str, str],
        parents: Sequence[Block] | None = None,
        ulid: str | None = None,
    ) -> Block:
        ulid = ulid or self.world.ids.ulid()
        schema = with_reserved(self.definition.schema, tuple(extra))
        made = {
            field.name: extra[field.name].cast(field.type)
            if field.name in extra
            else array_of(columns[field.name], field.type)
            for field in schema
        }
        writer = BlockWriter(
            self.bucket,
            self.world,
            ulid,
            self.definition,
            producer="vector",
            extra_columns=tuple(extra),
        )
        with writer:
            writer.write(pa.table(made, schema=schema))
            written = writer.finish()
        sources = sorted({one for block in parents or () for one in block.sources}) or [ulid]
        level = 1 if parents is None else 2
        by_age = kind is BlockKind.PLAIN and level == 1
        meta = block_meta(
            written,
            ulid=ulid,
            definition=self.definition,
            producer="vector",
            level=level,
            sources=tuple(sources),
            parents=tuple(
                Parent(ulid=one.ulid, min_time=one.meta.min_time, max_time=one.meta.max_time)
                for one in parents or ()
                if one.meta is not None
            ),
            own=not parents,
            visible_by=VisibleBy.AGE if by_age else VisibleBy.INDEX,
            kind=kind,
            labels=labels,
            uploaded_time=self.world.clock.now_ms(),
        )
        self.bucket.put(meta_key(ulid), sealed(encode(meta)))
        return Block(ulid, [], sources, level, labels, meta=meta)

    def _identity(self, one: object) -> tuple[object, ...]:
        return one if isinstance(one, tuple) else (one,)

    def _key_of(self, one: object) -> Row:
        """What a tombstone has beside its reserved columns."""
        return dict(zip(self.key, self._identity(one), strict=True)) if self.key else {}

    def _by_id(self, one: Version) -> tuple[bool, object]:
        """The order of the sort key, nulls last."""
        found = (self._key_of(one.named[1]) if one.row is None else one.row).get("id")
        return (found is None, found or 0)

    def _hashes(self, stream: Labels, known: Sequence[tuple[object, ...]]) -> np.ndarray:
        identity = self.definition.identity
        assert identity is not None
        if not known:
            return np.zeros(0, np.uint64)
        kinds = [
            self.definition.schema.field(name).type if self.key else pa.int64()
            for name in identity.columns
        ]
        arrays = [array_of([one[place] for one in known], kind) for place, kind in enumerate(kinds)]
        return hashes(identity, StreamKey(stream, 0), arrays)


def with_row_ids() -> Oracle:
    """Rows with ids: inserted, updated, deleted, merged in every way that keeps what is current."""
    made = Changing(91, SIMPLE, row_ids=True)
    first = made.insert(rows(0, 4))
    second = made.insert(rows(4, 6))
    changed = made.change(
        Operation.UPDATE,
        [(1, {"id": 1, "name": "changed"}), (None, {"id": 60, "name": "new"})],
    )
    gone = made.change(Operation.DELETE, [(0, None)])
    again = made.change(
        Operation.UPSERT, [(1, {"id": 1, "name": "changed again"}), (4, {"id": 4, "name": None})]
    )
    made.merge(changed, gone, kind=BlockKind.CHANGES)
    (inner,) = [block for block in made.blocks.values() if block.level == 2]
    hidden = made.of(first, current=False)
    purged = made.merge(first, without=hidden)
    assert purged is not None
    old = made.of(inner, again, second, purged, current=False)
    tombstones = [one for one in old if one.row is None]
    former = [one for one in old if one.row is not None]
    made.merge(inner, again, second, purged, without=tombstones, history=former)
    made.change(Operation.DELETE, [(5, None)])
    made.every()
    return made


def with_a_key() -> Oracle:
    """Rows with a key of two columns in two streams; a row that is deleted and comes again."""
    columns = [("id", pa.int64(), 1), ("day", pa.date32(), 2), ("name", pa.string(), 3)]
    made = Changing(92, columns, key=["id", "day"])

    def row(number: int, day: int, name: str) -> tuple[tuple[int, int], Row]:
        return (number, day), {"id": number, "day": day, "name": name}

    first = made.change(Operation.UPSERT, [row(1, 0, "a"), row(1, 1, "b"), row(2, 0, "c")])
    site = {"site": "x"}
    made.change(Operation.UPSERT, [row(1, 0, "another stream")], site)
    second = made.change(Operation.UPSERT, [row(1, 0, "A"), row(3, 0, "d")])
    third = made.change(Operation.DELETE, [((2, 0), None)])
    made.change(Operation.UPSERT, [row(2, 0, "C")])
    inside = made.of(first, second, third)
    newest = {one.named: max(v.number for v in inside if v.named == one.named) for one in inside}
    old = [one for one in inside if one.number < newest[one.named]]
    made.merge(first, second, third, kind=BlockKind.CHANGES, without=old)
    made.change(Operation.DELETE, [((1, 0), None)], site)
    made.every()
    return made
