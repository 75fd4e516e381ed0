"""Conditions on a table that is altered meanwhile: what a literal meant when it was read is what it
means to the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.operations.access import Access
from blockstore.operations.distributed_overwrite import begin, end
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

INT, BIG = pa.int32(), 4_000_000_000
AS_DOUBLE = pa.scalar(0.1, pa.float32()).as_py()
"""What a reader of the widened column sees of a float's 0.1."""


class Altered:
    """A table of one column ``x``, and another, ``y``."""

    def __init__(self, kind: pa.DataType, values: list[object], **labels: str) -> None:
        self.world = World.manual(seed=3)
        self.bucket = MemoryBucket(self.world.clock)
        schema = pa.schema([("x", kind), ("y", pa.int32())])
        index_log.create(self.bucket, self.world, Definition.create(schema))
        self.append(kind, values, **labels)

    def open(self, bucket: FaultyBucket | None = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world)

    def access(self) -> Access:
        table = self.open()
        return Access.of(table.bucket, table.world, table.log)

    def append(self, kind: pa.DataType, values: list[object], **labels: str) -> None:
        self.world.clock.sleep(1)
        table = pa.table(
            {"x": pa.array(values, kind), "y": pa.array([0] * len(values), pa.int32())}
        )
        self.open().append(table, labels=labels or None)

    def values(self) -> list[object]:
        return sorted(
            self.open().snapshot().scan().to_table()["x"].to_pylist(),
            key=lambda one: (one is None, one),
        )

    def racing(self, meanwhile: Callable[[], object]) -> Table:
        """A handle; ``meanwhile`` happens just before its first try to write an index entry."""
        faulty, left = FaultyBucket(self.bucket), [meanwhile]

        def interfere(call: Call) -> None:
            if call.writes and "index/0" in call.key and left:
                left.pop()()

        faulty.before.append(interfere)
        return self.open(faulty)


def widen(made: Altered, to: pa.DataType, *values: object, stale: str) -> None:
    made.open().alter(widen={"x": to})
    made.append(to, list(values))
    made.open().delete(stale)


INTS = [
    pytest.param("x < 3000000000", id="below"),
    pytest.param("x > -3000000000", id="above"),
    pytest.param("x <> 4000000000", id="another"),
]


@pytest.mark.parametrize("where", INTS)
@pytest.mark.parametrize("what", ["delete", "overwrite"])
@pytest.mark.parametrize("moved", [True, False], ids=["planned again", "not planned again"])
def test_a_widened_column_of_the_condition_conflicts(where: str, what: str, moved: bool) -> None:
    made = Altered(INT, [1, 2, None])
    values = [BIG, -BIG]
    table = made.racing(
        lambda: widen(made, pa.int64(), *values, stale="x = 1" if moved else "false")
    )
    rows = pa.table({"x": pa.array([7], INT), "y": pa.array([0], pa.int32())})
    run = {
        "delete": partial(table.delete, where),
        "overwrite": partial(table.overwrite, rows, where=where),
    }
    with pytest.raises(
        bs.Conflict, match=r"column 'x' was a column of int32 .* and is a column of int64"
    ):
        run[what]()
    assert made.values() == [-BIG, *([] if moved else [1]), 2, BIG, None]


def test_a_float_that_became_a_double_conflicts() -> None:
    made = Altered(pa.float32(), [0.1, 0.5, 2.0])
    table = made.racing(lambda: widen(made, pa.float64(), 0.1, stale="x = 0.5"))
    with pytest.raises(
        bs.Conflict, match=r"column 'x' was a column of float .* and is a column of double"
    ):
        table.delete("x = 0.1")
    assert made.values() == [0.1, AS_DOUBLE, 2.0]


def test_a_condition_that_is_asked_again_has_the_new_meaning() -> None:
    made = Altered(INT, [1, 2, None])
    table = made.racing(lambda: widen(made, pa.int64(), BIG, stale="x = 1"))
    with pytest.raises(bs.Conflict):
        table.delete("x < 3000000000")
    assert table.delete("x < 3000000000").rows_removed == 1
    assert made.values() == [BIG, None]


@pytest.mark.parametrize(
    "change", [{"widen": {"y": pa.int64()}}, {"add": [pa.field("z", pa.string())]}]
)
def test_an_alter_of_another_column_is_planned_on(change: dict[str, object]) -> None:
    made = Altered(INT, [1, 2, 3])

    def meanwhile() -> None:
        made.open().alter(**change)  # type: ignore[arg-type]
        made.open().delete("x = 1")

    assert made.racing(meanwhile).delete("x < 3").rows_removed == 1
    assert made.values() == [3]


def test_any_alter_is_planned_on_where_there_is_no_condition() -> None:
    made = Altered(INT, [1, 2, 3])
    made.racing(lambda: widen(made, pa.int64(), BIG, stale="x = 1")).delete("true")
    assert made.values() in ([], [BIG])


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_a_new_column_in_the_place_of_a_label_conflicts(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer of an earlier release may add one: this release refuses to."""
    monkeypatch.setattr("blockstore.operations.alter.check_no_label_is_hidden", lambda *_: None)
    made = Altered(INT, [1, 2], site="north")

    def meanwhile() -> None:
        made.open().alter(add=[pa.field("site", kind)])
        made.open().delete("x = 1")

    with pytest.raises(bs.Conflict, match=r"'site' was a label .* and is a column"):
        made.racing(meanwhile).delete("site = 'north'")
    assert made.values() == [2]


def test_an_overwrite_that_was_begun_before_the_alter_conflicts() -> None:
    made = Altered(INT, [1, 2, None])
    begun = begin(made.access(), where="x < 3000000000")
    widen(made, pa.int64(), BIG, stale="x = 1")
    with pytest.raises(
        bs.Conflict, match=r"column 'x' was a column of int32 .* and is a column of int64"
    ):
        end(made.access(), begun, None)
    assert made.values() == [2, BIG, None]
