"""Tables that are read by listing, without an index and beside one; what is chosen is said by
hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from blockstore.format.definition import Definition
from blockstore.format.document import sealed
from blockstore.format.marks import (
    DeletionMark,
    MarkReason,
    NoCompactMark,
    NoCompactReason,
    encode_mark,
)
from blockstore.index.entry import Operation
from blockstore.names import deletion_mark_key, meta_key, no_compact_mark_key, object_key
from tests.golden.oracle import Block, Oracle, told_sources
from tests.golden.plain import sorted_rows
from tests.golden.vectors_indexed import SIMPLE, rows, simple

Chosen = Sequence[tuple[Block, Sequence[str] | None]]
"""Blocks, and the sources that are read of each: None for all."""


def marks() -> Oracle:
    """Marks that hide and marks that do not; one of a reason that nobody knows, and one that cannot
    be read."""
    made = simple(21, indexed=False)
    blocks = [_age(made, rows(10 * n, 10 * n + 2)) for n in range(10)]
    reasons = [
        MarkReason.RETENTION,
        MarkReason.MANUAL,
        MarkReason.REVERT,
        MarkReason.SUPERSEDED,
        MarkReason.PARTIAL,
        MarkReason.MALFORMED,
    ]
    for block, reason in zip(blocks, reasons, strict=False):
        _mark(made, block, reason)
    unknown = encode_mark(
        DeletionMark(ulid=blocks[6].ulid, deletion_time_s=1, reason=MarkReason.MANUAL)
    )
    made.bucket.put(
        deletion_mark_key(blocks[6].ulid), sealed(unknown.replace(b'"manual"', b'"tomorrow"'))
    )
    made.bucket.put(deletion_mark_key(blocks[7].ulid), b"{")
    keep = NoCompactMark(ulid=blocks[8].ulid, no_compact_time_s=1, reason=NoCompactReason.SIZE)
    made.bucket.put(no_compact_mark_key(blocks[8].ulid), sealed(encode_mark(keep)))
    # The rows of the last one are in a merge as well, so nobody misses it.
    made.bucket.put(deletion_mark_key(blocks[9].ulid), b"{")
    made.world.clock.sleep(1)
    merge = made.merged(blocks[9], visible="age")
    left_out = [blocks[6].ulid, blocks[7].ulid]
    _listed(
        made, [*((one, None) for one in blocks[3:6]), (blocks[8], None), (merge, None)], left_out
    )
    return made


def ages() -> Oracle:
    """Blocks too young by their names, one whose wait is waived, and an upload that has not
    ended."""
    made = simple(22, indexed=False)
    old = _age(made, rows(0, 2))
    made.world.clock.sleep(3600)
    young = _age(made, rows(2, 4), uploaded_time=0)
    now = made.world.clock.now_ms()
    shipped = _age(made, rows(8, 10), uploaded_time=now + 5_000)
    waived = _age(made, rows(4, 6), ignore_delay=True)
    unfinished = _age(made, rows(6, 8))
    made.bucket.delete([meta_key(unfinished.ulid)])
    _listed(made, [(old, None), (waived, None)], now=now + 900_000 - 1, modified=now - 3_600_000)
    _listed(
        made,
        [(old, None), (waived, None), (young, None)],
        now=now + 900_000,
        modified=now - 3_600_000,
    )
    every = [(old, None), (waived, None), (young, None), (shipped, None)]
    _listed(made, every[:3], now=now + 904_999, modified=now - 3_600_000)
    _listed(made, every, now=now + 905_000, modified=now - 3_600_000)
    _listed(made, [(waived, None)], now=now + 900_000, modified=now + 1)
    return made


def nothing_yet() -> Oracle:
    """Blocks that are hidden, or too young: no rows, and still a table."""
    made = simple(29, indexed=False)
    hidden = _age(made, rows(0, 2), labels={"device": "d1"})
    _mark(made, hidden, MarkReason.RETENTION)
    _as(
        made,
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("review", pa.struct([pa.field("null_view", pa.bool_())])),
        ],
    )
    _age(made, [{"id": 3, "name": "young", "review": {"null_view": True}}])
    kind = pa.struct([pa.field("null_view", pa.bool_())])
    made.columns = [*SIMPLE, ("review", kind, 3)]
    _listed(made, [], now=made.world.clock.now_ms() + 1, sort_by=[])
    return made


def cover() -> Oracle:
    """Merges beside their inputs: one whole, one in part because another merge has the rest, and a
    rewrite."""
    made = simple(23, indexed=False)
    a, b, c, d, e = (_age(made, rows(10 * n, 10 * n + 2)) for n in range(5))
    first = made.merged(a, b, visible="age")
    made.world.clock.sleep(1)
    second = made.merged(b, c, visible="age")
    made.world.clock.sleep(1)
    rewritten = made.upload(
        [(d.ulid, d.rows[0][1])], level=2, sources=[d.ulid], revision=1, own=False, visible="age"
    )
    made.world.clock.sleep(1)
    # Its own block is gone, so only the second merge has the rows of c; those of the first merge
    # are still there.
    made.bucket.delete([info.key for info in made.bucket.list(c.ulid)])
    # Of the other stream nothing stands in for this one.
    other = made.upload(
        [(e.ulid, row) for row in rows(90, 92)],
        level=2,
        sources=[e.ulid],
        labels={"zone": "x"},
        own=False,
        visible="age",
    )
    _listed(made, [(first, None), (second, c.sources), (rewritten, None), (e, None), (other, None)])
    return made


def devices() -> Oracle:
    """Blocks of writers that never met: other ids, other orders, wider types; and those that
    contradict the older ones."""
    made = simple(24, indexed=False)
    _as(made, [("ID", pa.string())])
    hidden = _age(made, [{"ID": "hidden"}])
    _mark(made, hidden, MarkReason.MANUAL)
    _as(made, [("id", pa.int32()), ("name", pa.string())])
    declared = _age(made, [])
    first = _age(made, [{"id": 1, "name": "one"}], labels={"device": "d1"})
    _as(
        made, [("name", pa.string()), ("id", pa.int64()), ("extra", pa.float64())], sort_by=["name"]
    )
    wider = _age(made, [{"name": "two", "id": 2**40, "extra": 0.5}], labels={"device": "d2"})
    _as(made, [("Name", pa.string())])
    clash = _age(made, [{"Name": "case"}])
    _as(made, [("id", pa.string()), ("more", pa.string())])
    contrary = _age(made, [{"id": "text", "more": "none"}])
    _as(made, [("id", pa.int16())], sort_by=["id"])
    narrow = _age(made, [{"id": 3}])
    # A contradicting block pushes nothing out of the cover: its merge is not read, and neither is
    # what only it has.
    _as(made, [("id", pa.binary())])
    made.world.clock.sleep(1)
    merge = made.upload(
        [(narrow.ulid, {"id": "00"})],
        level=2,
        sources=[narrow.ulid, clash.ulid],
        own=False,
        visible="age",
    )
    made.columns = [("id", pa.int64(), 1), ("name", pa.string(), 2), ("extra", pa.float64(), 3)]
    chosen = [(declared, None), (first, None), (wider, None), (narrow, None)]
    _listed(made, chosen, [clash.ulid, contrary.ulid, merge.ulid], sort_by=["id"])
    return made


def beside() -> Oracle:
    """What a listing adds to an index: rows of writes that it does not account for, out of whole
    blocks and of merges."""
    made = simple(25)
    live, gone = made.append(rows(0, 2)), made.append(rows(2, 4))
    made.world.clock.sleep(1)
    made.commit(Operation.EXPIRE, remove=(gone.ulid,))
    made.note(remove=[gone.ulid])
    listed = _age(made, rows(10, 12))
    input_ = _age(made, rows(20, 22))
    merge = made.merged(live, input_, gone, visible="age")
    by_index = made.upload(rows(30, 32))
    hidden = _age(made, rows(40, 42))
    _mark(made, hidden, MarkReason.REVERT)
    missing = _age(made, rows(50, 52))
    made.bucket.delete([object_key(missing.ulid, "chunks/000001.parquet")])
    flipped = _age(made, rows(60, 62))
    _flip(made, meta_key(flipped.ulid))
    assert by_index.ulid not in made.blocks
    # A column is its id: another name for it changes nothing, and one that the table does not have
    # cannot be read.
    _as(made, [("id", pa.int64()), ("called", pa.string())])
    other_name = _age(made, [{"id": 7, "called": "otherwise"}])
    _as(made, [("id", pa.int64()), ("name", pa.string()), ("strange", pa.string())])
    strange = _age(made, [{"id": 8, "name": "x", "strange": "column"}])
    other_name.rows = [(other_name.ulid, {"id": 7, "name": "otherwise"})]
    made.columns = list(SIMPLE)
    made.definition = made.table.definition
    chosen = [(listed, None), (merge, input_.sources), (other_name, None)]
    _listed(made, chosen, [missing.ulid, flipped.ulid, strange.ulid])
    made.ask(made.version)
    return made


def renamed() -> Oracle:
    """Columns under other names and in another order, a dropped one, and another one of its name;
    and a block under the first names that only a listing shows."""
    made = Oracle(
        34,
        [("id", pa.int64(), 1), ("name", pa.string(), 2), ("note", pa.string(), 3)],
        sort_by=["id"],
    )
    made.append([{"id": n, "key": n, "name": f"r{n}", "label": f"r{n}"} for n in (1, 2)])
    first = made.definition
    for columns, change in (
        (
            [("label", pa.string(), 2), ("key", pa.int64(), 1)],
            {"rename": {"id": "key", "name": "label"}, "reorder": ["label"], "drop": ["note"]},
        ),
        (
            [("label", pa.string(), 2), ("key", pa.int64(), 1), ("note", pa.string(), 4)],
            {"add": [pa.field("note", pa.string())]},
        ),
    ):
        made.world.clock.sleep(1)
        made.definition = made.table.alter(**change)
        made.columns = columns
        made.note()
        row = {"key": 10 + len(columns), "label": "new", "note": "of the new one"}
        made.append([{name: row[name] for name, _, _ in columns}])
    made.compact(*list(made.blocks.values())[:2])
    made.every()
    made.definition = first
    row = {"id": 20, "name": "late", "note": "of the dropped one"}
    late = _age(made, [row])
    late.rows = [(late.ulid, {"key": 20, "label": "late", "note": None})]
    made.definition = made.table.definition
    _listed(made, [(late, None)])
    return made


def below_the_floor() -> Oracle:
    """What lies at or below the floor came too late: no block of that time, and no such source of a
    younger merge."""
    made = simple(30)
    late, other, missing = (_age(made, rows(10 * n, 10 * n + 2)) for n in range(3))
    made.bucket.delete([object_key(missing.ulid, "chunks/000001.parquet")])
    floor = made.world.ids.ulid()
    made.world.clock.sleep(1)
    young = _age(made, rows(50, 52))
    merge = made.merged(other, young, visible="age")
    made.world.clock.sleep(1)
    made.commit(Operation.HORIZON, horizon=floor, floor=floor)
    made.told |= {"horizon": floor, "floor": floor}
    made.note()
    assert late.ulid < floor < young.ulid
    _listed(made, [(merge, young.sources)])
    return made


def index_lost() -> Oracle:
    """Blocks that only an index could show, and none is there: never read as a smaller table by
    accident."""
    made = simple(26, indexed=False)
    shown = _age(made, rows(0, 2))
    lost = made.upload(rows(2, 4))
    made.refuse("corrupt")
    _listed(made, [(shown, None)], [lost.ulid])
    return made


def nothing_readable() -> Oracle:
    """No index, and the only block is damaged: nothing says what the table is."""
    made = simple(27, indexed=False)
    block = _age(made, rows(0, 2))
    _flip(made, meta_key(block.ulid))
    made.refuse("corrupt", list=True, now=made.world.clock.now_ms() + 10**7, modified=0)
    return made


def old_lists() -> Oracle:
    """A long list of sources whose hash an earlier release spelled otherwise; one that does not fit
    it."""
    made = simple(28, indexed=False)
    made.world.clock.sleep(1)
    sources = [f"01HF7{number:021d}" for number in range(1_001)]
    good = made.upload(
        [(sources[0], row) for row in rows(0, 2)],
        level=2,
        sources=sources,
        own=False,
        visible="age",
    )
    _spell_old(made, good, same=True)
    others = [f"01HF8{number:021d}" for number in range(1_001)]
    bad = made.upload(
        [(others[0], row) for row in rows(2, 4)], level=2, sources=others, own=False, visible="age"
    )
    _spell_old(made, bad, same=False)
    _listed(made, [(good, None)], [bad.ulid])
    return made


def _spell_old(made: Oracle, block: Block, *, same: bool) -> None:
    """The list's hash under its old name alone, without a seal."""
    data = made.bucket.get(meta_key(block.ulid)).data
    text = b"{" + data[len(b'{"check":"",') + 64 :]
    digest = text.partition(b'"hash":"')[2][:64]
    text = text.replace(b'"sha256":"' + digest + b'","hash"', b'"hash"')
    made.bucket.put(meta_key(block.ulid), text if same else text.replace(digest, b"ab" * 32))


def _age(made: Oracle, data: Sequence[dict[str, Any]], **said: Any) -> Block:
    made.world.clock.sleep(1)
    return made.upload(data, visible="age", **said)


def _as(
    made: Oracle, columns: Sequence[tuple[str, pa.DataType]], sort_by: Sequence[str] = ()
) -> None:
    """From now on the writer has another idea of the table."""
    made.definition = Definition.create(
        pa.schema([pa.field(name, kind) for name, kind in columns]), sort_by=sort_by
    )


def _mark(made: Oracle, block: Block, reason: MarkReason) -> None:
    mark = DeletionMark(
        ulid=block.ulid, deletion_time_s=made.world.clock.now_ms() // 1000, reason=reason
    )
    made.bucket.put(deletion_mark_key(block.ulid), sealed(encode_mark(mark)))


def _flip(made: Oracle, key: str) -> None:
    data = bytearray(made.bucket.get(key).data)
    data[len(data) // 2] ^= 1
    made.bucket.put(key, bytes(data))


def _listed(
    made: Oracle,
    chosen: Chosen,
    left_out: Sequence[str] = (),
    *,
    now: int | None = None,
    modified: int = 0,
    sort_by: Sequence[str] | None = None,
) -> None:
    """A question whose answer is the index's rows, and those of the chosen blocks."""
    taken = {name.lower() for name, _, _ in made.columns}
    borne = {
        *made.labels,
        *(
            name
            for one in [*made.blocks.values(), *(block for block, _ in chosen)]
            for name in one.labels
        ),
    }
    labels = [name for name in sorted(borne) if name.lower() not in taken]
    shown = [row for one in made.blocks.values() for row in one.shown(made.columns, labels)]
    shown += [row for block, only in chosen for row in block.shown(made.columns, labels, only)]
    about = made.about() | ({} if sort_by is None else {"sort_by": list(sort_by)})
    if not made.version:
        about["columns"] = [[name, kind, None] for name, kind, _ in about["columns"]]
    state = {
        "version": made.version or None,
        **about,
        "listed": [
            {
                "ulid": block.ulid,
                "sources": told_sources(sorted(block.sources if only is None else only)),
            }
            for block, only in sorted(chosen, key=lambda one: one[0].ulid)
        ],
        "left_out": sorted(left_out),
    }
    when = made.world.clock.now_ms() + 10**7 if now is None else now
    question = {"list": True, "now": when, "modified": modified}
    made.asks.append({"ask": question, "state": state, "rows": sorted_rows(shown)})
