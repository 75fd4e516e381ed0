"""An upsert that many processes write and one commits: one block, each identity once, each job
once."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.block import Job, StreamKey
from blockstore.format.block_writer import BlockWriter
from blockstore.format.identity import DELETED
from blockstore.format.properties import Isolation, Properties
from blockstore.index.entry import Operation
from blockstore.index.touches import MOST, packed
from blockstore.operations.access import Access
from blockstore.rows import parts as writing
from blockstore.rows.attempts import Said
from blockstore.rows.distributed import commit_parts
from blockstore.rows.named import Named
from blockstore.rows.parts import Part, PartRows
from blockstore.rows.results import RowsChanged
from blockstore.scan.identities import hashes
from blockstore.table import Table
from tests.blockstore.rows.lake import BY_KEY, again, by_key, rows_of, seen

Row = dict[str, Any]


def row(key: int, n: int = 0, **more: Any) -> Row:
    return {"id": key, "name": "a", "n": n, **more}


def gone(key: int, n: int = 0) -> Row:
    return row(key, n, **{DELETED: True})


class Writers:
    """The processes of one upsert."""

    def __init__(self, table: Table, **how: Any) -> None:
        self.table = table
        self.ulid = table.world.ids.ulid()
        self.definition = table.definition
        self.labels = how.pop("labels", {})
        self.how = how
        self.parts: list[Part] = []

    def task(self, *rows: Row) -> Writers:
        """A process writes rows, in batches of two; what it reports travels."""
        mine = PartRows(self.definition, self.labels, **self.how)
        token = f"t{len(self.parts)}"
        writer = BlockWriter(
            self.table.bucket, self.table.world, self.ulid, self.definition, labels=self.labels,
            producer="test", token=token, extra_columns=mine.extra,
        )  # fmt: skip
        for batch in mine.take(batches(rows)):
            writer.write(batch)
        part = Part(chunks=writer.finish(), hashes=mine.hashes())
        self.parts.append(pickle.loads(pickle.dumps(part)))
        return self

    def merge(self, read: int) -> RowsChanged:
        table = again(self.table)
        access = Access.of(table.bucket, table.world, table.log)
        return commit_parts(
            access, self.parts, ulid=self.ulid, definition=self.definition, labels=self.labels,
            said=Said(), producer="test", operation=Operation.MERGE, read_version=read,
        ).did  # fmt: skip

    def commit(self, **said: Any) -> RowsChanged:
        table = again(self.table)
        access = Access.of(table.bucket, table.world, table.log)
        return commit_parts(
            access, self.parts, ulid=self.ulid, definition=self.definition, labels=self.labels,
            said=Said(labels=self.labels, **said), producer="test",
        ).did  # fmt: skip


def batches(rows: Iterable[Row]) -> list[pa.RecordBatch]:
    listed = list(rows)
    schema = BY_KEY
    if any(DELETED in one for one in listed):
        schema = BY_KEY.append(pa.field(DELETED, pa.bool_()))
        listed = [{DELETED: False, **one} for one in listed]
    return [
        batch
        for first in range(0, len(listed), 2)
        for batch in pa.Table.from_pylist(listed[first : first + 2], schema=schema).to_batches()
    ]


def entries(table: Table) -> list[Any]:
    return list(again(table).history())


def test_the_rows_of_many_processes_are_one_block_and_one_version() -> None:
    table = by_key(sort_by=["n"])
    table.upsert(rows_of(row(1), row(2), row(3)))
    did = Writers(table).task(row(1, 10), row(4, 40)).task(row(2, 20)).commit(message="said")
    assert seen(table, "id", "n") == [
        {"id": 1, "n": 10}, {"id": 2, "n": 20}, {"id": 3, "n": 0}, {"id": 4, "n": 40},
    ]  # fmt: skip
    assert (did.version, did.already) == (3, False)
    entry = entries(table)[-1]
    assert (entry.operation, entry.message, len(entry.add)) == ("upsert", "said", 1)
    named = hashes(table.definition.identity, StreamKey((), 0), [pa.array([1, 2, 4])])
    assert entry.touched == packed(named)


@pytest.mark.parametrize("isolation", Isolation)
def test_a_merge_has_read_the_table_where_it_is_serializable(isolation: Isolation) -> None:
    table = by_key(properties=Properties(isolation=isolation))
    table.upsert(rows_of(row(1), row(2)))
    Writers(table).task(row(1, 10)).merge(2)
    writers = Writers(table).task(row(1, 11))
    again(table).upsert(rows_of(row(9)))
    if isolation is Isolation.SERIALIZABLE:
        with pytest.raises(bs.RowConflict, match="read the table at version 3"):
            writers.merge(3)
    else:
        assert writers.merge(3).version == 5


def test_a_source_sends_deletions() -> None:
    table = by_key(sort_by=["name"])
    table.upsert(rows_of(row(1), row(2), row(3)))
    deletion = {"id": 2, "name": None, "n": None, DELETED: True}
    Writers(table).task(row(1, 10), deletion, gone(9)).task(gone(3)).commit()
    assert seen(table, "id", "n") == [{"id": 1, "n": 10}]
    assert table.row_history(2).to_pylist()[0][DELETED]


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        ([[row(1), row(2), row(1, 5)]], r"the key \(id\) 1 occurs 2 times"),
        ([[row(1), gone(1)]], r"the key \(id\) 1 occurs 2 times"),
        ([[row(1), row(2)], [row(3), row(2)]], r"the key \(id\) 2 occurs 2 times"),
        ([[row(1)], [row(2)], [gone(1)]], r"the key \(id\) 1 occurs 2 times"),
        ([[row(1), {**row(2), "id": None}]], "column 'id' is null in row 1"),
        ([[{**gone(2), "id": None}]], "column 'id' is null in row 0"),
        ([[{**row(2), DELETED: None}]], "column '_deleted' is null in row 0"),
    ],
)
def test_what_is_no_set_of_identities_is_refused_and_nothing_is_visible(
    tasks: list[list[Row]], text: str
) -> None:
    table = by_key()
    table.upsert(rows_of(row(1)))
    job = Writers(table)

    def run() -> None:
        for rows in tasks:
            job.task(*rows)
        job.commit()

    with pytest.raises(bs.Invalid, match=text):
        run()
    assert seen(table, "id", "n") == [{"id": 1, "n": 0}]
    assert len(entries(table)) == 2


def test_two_keys_with_one_hash_are_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    table = by_key()
    monkeypatch.setattr(Named, "hashes", property(lambda self: np.zeros(self.count, np.uint64)))
    Writers(table).task(row(1), row(2)).task(row(3)).commit()
    assert seen(table, "id") == [{"id": 1}, {"id": 2}, {"id": 3}]


class TestSequence:
    """``sequence_by`` says which row of a key counts."""

    @pytest.mark.parametrize("hold_bytes", [1, 2**20])
    def test_the_highest_counts_wherever_it_is(self, hold_bytes: int) -> None:
        table = by_key()
        rows = [row(1, 5), row(1, 7), row(2, 1), row(1, 6), row(2, 0), {**row(2), "n": None}]
        Writers(table, sequence_by="n", hold_bytes=hold_bytes).task(*rows).task(row(3, 1)).commit()
        assert seen(table, "id", "n") == [{"id": 1, "n": 7}, {"id": 2, "n": 1}, {"id": 3, "n": 1}]

    def test_a_deletion_counts_by_its_place_in_the_sequence(self) -> None:
        table = by_key()
        table.upsert(rows_of(row(1), row(2)))
        Writers(table, sequence_by="n").task(gone(1, 9), row(1, 8), gone(2, 8), row(2, 9)).commit()
        assert seen(table, "id", "n") == [{"id": 2, "n": 9}]

    @pytest.mark.parametrize("hold_bytes", [1, 2**20])
    def test_two_highest_are_refused_and_two_lower_ones_are_not(self, hold_bytes: int) -> None:
        table = by_key()
        how = {"sequence_by": "n", "hold_bytes": hold_bytes}
        Writers(table, **how).task(row(1, 5), row(1, 5), row(1, 6)).commit()
        assert seen(table, "id", "n") == [{"id": 1, "n": 6}]
        with pytest.raises(bs.Invalid, match=r"the key \(id\) 1 .* 2 rows .* highest 'n', 7"):
            Writers(table, **how).task(row(1, 7), row(1, 6), row(1, 7))

    def test_processes_that_share_a_key_are_refused_with_the_way_on(self) -> None:
        with pytest.raises(bs.Invalid, match="occurs 2 times"):
            Writers(by_key(), sequence_by="n").task(row(1, 1)).task(row(1, 2)).commit()


def test_a_job_counts_once_however_often_it_is_committed() -> None:
    table = by_key()
    said = {"job": Job(app="nightly", batch=3)}
    first = Writers(table).task(row(1, 1)).commit(**said)
    table.upsert(rows_of(row(1, 2)))
    did = Writers(table).task(row(1, 1)).commit(**said)
    assert (did.already, did.version) == (True, first.version)
    assert seen(table, "id", "n") == [{"id": 1, "n": 2}]


def test_labels_are_part_of_the_identity() -> None:
    table = by_key()
    for site, n in (("x", 1), ("y", 2), ("y", 3)):
        Writers(table, labels={"site": site}).task(row(1, n)).commit()
    assert seen(table, "site", "n") == [{"site": "x", "n": 1}, {"site": "y", "n": 3}]
    others = [one.touched for one in entries(table)[1:]]
    assert others[0] != others[1] == others[2]


def test_a_definition_that_was_changed_since_is_a_conflict() -> None:
    table = by_key()
    job = Writers(table).task(row(1))
    table.alter(add=[pa.field("x", pa.int64())])
    with pytest.raises(bs.RowConflict, match=r"definition was changed meanwhile.*write them again"):
        job.commit()


def test_an_update_that_read_a_row_is_planned_again_when_an_upsert_came_between() -> None:
    table = by_key()
    table.upsert(rows_of(row(1, 1), row(2, 2)))
    job = Writers(table).task(row(1, 10))
    between: list[RowsChanged] = []

    def value(rows: pa.RecordBatch) -> pa.Array:
        if not between:
            between.append(job.commit())
        return pa.array([one + 1 for one in rows["n"].to_pylist()])

    again(table).update({"n": value}, where="id = 1")
    assert seen(table, "id", "n") == [{"id": 1, "n": 11}, {"id": 2, "n": 2}]


def test_of_many_rows_the_entry_says_that_any_may_be_touched() -> None:
    table = by_key()
    half = MOST // 2 + 1
    few = Writers(table, alone=True).task(*map(row, range(half)))
    assert few.parts[0].hashes is not None
    few.task(*map(row, range(half, 2 * half))).commit()
    assert entries(table)[-1].touched is None
    many = Writers(table, alone=True).task(*map(row, range(MOST + 1)))
    assert many.parts[0].hashes is None
    many.commit()
    assert entries(table)[-1].touched is None


def test_more_rows_than_can_be_compared_are_refused_with_the_way_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "MOST_COMPARED", 3)
    with pytest.raises(bs.Invalid, match="4 rows in one task"):
        Writers(by_key()).task(*map(row, range(4)))


def test_without_rows_there_is_no_block() -> None:
    table = by_key()
    did = Writers(table).task().commit()
    assert did.version is None
    assert len(entries(table)) == 1
