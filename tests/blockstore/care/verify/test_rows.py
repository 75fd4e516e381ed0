"""``verify`` of tables whose rows change: nothing in healthy ones, and each planted fault."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from blockstore.care.finding import Report
from blockstore.care.verify import rows as verify_rows
from blockstore.care.verify import verify
from blockstore.format.block import BlockKind, StreamKey
from blockstore.index.added import AddedBlock
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.index.rows import LiveBlock
from blockstore.names import object_key
from blockstore.rows.block import ChangesWriter
from blockstore.rows.change import ChangeRows
from blockstore.table import Table
from tests.blockstore.rows.lake import by_id, by_key, rows_of
from tests.blockstore.rows.made import every_version, replace_blocks, upload
from tests.support.index_data import Planned


def found(table: Table, *, deep: bool) -> Report:
    return verify(table.bucket, table.world, deep=deep)


def expect(table: Table, what: str, *, deep_only: bool = False, findings: int = 1) -> None:
    if deep_only:
        assert not found(table, deep=False).findings
    for deep in (True,) if deep_only else (False, True):
        report = found(table, deep=deep)
        assert [str(one.check) for one in report] == ["rows"] * findings, report.findings
        assert what in report.findings[0].what
        assert report.findings[0].fix
        assert report.errors


def numbered() -> Table:
    table = by_id()
    table.append(pa.table({"name": ["a", "b", "c"], "n": [1, 2, 3]}))
    table.update({"n": 20}, where="n = 2")
    table.delete_rows([0])
    return table


def keyed(**more: Any) -> Table:
    table = by_key(**more)
    table.upsert(rows_of(*({"id": one, "name": "a", "n": one} for one in range(4))))
    table.upsert(rows_of({"id": 1, "name": "b", "n": 9}))
    table.delete_rows([2])
    return table


def by_version(table: Table) -> list[LiveBlock]:
    return sorted(table.log.poll().blocks, key=lambda block: block.version)


def merged(table: Table, rows: pa.Table, kind: BlockKind = BlockKind.PLAIN) -> str:
    """All blocks replaced by one with these rows."""
    inputs = table.log.poll().blocks.ulids()
    block = upload(table, rows, kind=kind, inputs=inputs)
    replace_blocks(table, inputs, block)
    return block.ulid


def current(table: Table) -> pa.Table:
    """The current rows, as a merge of everything has them."""
    every = every_version(table)
    own = table.definition.identity
    assert own is not None
    newest = every.group_by(list(own.columns)).aggregate([("_version", "max")])
    keys = [*own.columns, "_version"]
    wanted = newest.rename_columns([*own.columns, "_version"]).select(keys)
    return every.join(wanted, keys, join_type="inner").filter(pc.invert(pc.field("_deleted")))


@pytest.mark.parametrize("make", [numbered, keyed])
@pytest.mark.parametrize("at_once", [2, 16_000_000])
def test_a_healthy_table_has_no_finding(
    make: Any, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_rows, "_AT_ONCE", at_once)
    for deep in (False, True):
        assert not found(make(), deep=deep).findings


@pytest.mark.parametrize("make", [numbered, keyed])
def test_a_merged_table_with_history_is_healthy(make: Any) -> None:
    table = make()
    every = every_version(table)
    now = current(table)
    own = table.definition.identity.columns[0]
    versions = dict(zip(now[own].to_pylist(), now["_version"].to_pylist(), strict=True))
    superseded = pa.array(
        [
            versions.get(one) != version
            for one, version in zip(
                every[own].to_pylist(), every["_version"].to_pylist(), strict=True
            )
        ]
    )
    inputs = table.log.poll().blocks.ulids()
    plain = upload(table, now, inputs=inputs)
    former = upload(table, every.filter(superseded), kind=BlockKind.HISTORY)
    replace_blocks(table, inputs, plain, former)
    for deep in (False, True):
        assert not found(table, deep=deep).findings


def test_two_plain_rows_of_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    table = keyed()
    rows = current(table)
    merged(table, pa.concat_tables([rows, rows.slice(0, 1)]))
    for at_once in (1, 16_000_000):
        monkeypatch.setattr(verify_rows, "_AT_ONCE", at_once)
        expect(table, "plain rows hide nothing", deep_only=True)


def test_two_plain_rows_of_one_id_of_which_changes_hide_one() -> None:
    table = numbered()
    every = every_version(table)
    merged(table, every.filter(pc.invert(pc.field("_deleted"))))
    expect(table, "row with _row_id 1 occurs 2 times", deep_only=True)


def test_a_row_that_changes_and_a_plain_block_have_at_one_version() -> None:
    table = keyed()
    first, second, _ = (block.ulid for block in by_version(table))
    plain = upload(table, every_version(table, [first, second]).filter(
        pc.or_kleene(pc.not_equal(pc.field("id"), 1), pc.equal(pc.field("_version"), 3))
    ), inputs=[first])  # fmt: skip
    replace_blocks(table, [first], plain)
    expect(table, "it is current twice", deep_only=True)


def test_a_former_version_that_is_current() -> None:
    table = keyed()
    rows = current(table)
    merged(table, rows)
    replace_blocks(table, (), upload(table, rows.slice(0, 1), kind=BlockKind.HISTORY))
    expect(table, "as a former one, and the current one is version", deep_only=True)


def test_a_carried_row_of_a_version_to_come() -> None:
    table = numbered()
    rows = current(table)
    versions = pa.array([99] * rows.num_rows, pa.int64())
    at = rows.schema.get_field_index("_version")
    merged(table, rows.set_column(at, "_version", versions))
    expect(table, "has a row of version 99, and version 5 added its block")


def test_an_id_that_was_never_given() -> None:
    table = numbered()
    rows = current(table)
    at = rows.schema.get_field_index("_row_id")
    ids = pa.array([1000 + one for one in range(rows.num_rows)], pa.int64())
    merged(table, rows.set_column(at, "_row_id", ids))
    expect(table, "the table has given ids below 7")


def test_a_change_of_a_row_that_did_not_exist() -> None:
    table = numbered()
    state = table.log.state
    with ChangesWriter(
        table._access, state.definition, StreamKey((), 0), producer="test"
    ) as writer:
        writer.delete(pa.record_batch({"_row_id": pa.array([state.next_row_id], pa.int64())}))
        finished = writer.finish()
    assert finished is not None
    block, named = finished
    table.log.commit(ChangeRows(
        operation=Operation.DELETE, commit=table.world.ids.ulid(), blocks=(block,), named=named,
        definition=state.definition,
    ))  # fmt: skip
    expect(table, "changes row 5, which did not exist at version 5")


def test_ids_that_were_given_twice() -> None:
    table = numbered()
    ulid = by_version(table)[0].ulid
    block = table.append(pa.table({"name": ["x"], "n": [0]})).ulid
    assert block is not None
    state = table.log.poll()
    live = state.blocks.get(block)
    assert live is not None
    back = AddedBlock(meta=live.meta, version=2, first_row_id=1)
    plan = Draft(add=(back,), remove=(block,))
    table.log.commit(Planned(operation=Operation.COMPACT, commit=table.world.ids.ulid(), plan=plan))
    report = found(table, deep=False)
    assert [str(one.check) for one in report] == ["rows"]
    assert f"block {ulid} has the ids from 0 to 2" in report.findings[0].what
    assert len(found(table, deep=True).findings) == 2, "and the row is there twice"


def test_damaged_changes_are_reported_and_no_rows_compared() -> None:
    table = keyed()
    live = by_version(table)[1]
    ulid = live.ulid
    key = object_key(ulid, live.meta.chunks[0].path)
    data = table.bucket.get(key).data
    table.bucket.put(key, data[:40] + bytes([data[40] ^ 1]) + data[41:])
    report = found(table, deep=True)
    assert [(str(one.severity), str(one.check)) for one in report] == [
        ("error", "hash"),
        ("note", "rows"),
    ]


def test_two_keys_with_one_hash_are_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    table = keyed()
    monkeypatch.setattr(
        verify_rows, "hashes", lambda _, __, columns: np.zeros(len(columns[0]), np.uint64)
    )
    assert not found(table, deep=True).findings
