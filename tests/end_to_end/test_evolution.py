"""A table whose columns change while rows are written, merged, deleted and read, against a model in
plain Python: a column is its id, and a row is what it holds by id.

Writers that opened the table before a change go on under the columns that they know.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.merge.engine import MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.pieces import Pieces
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.reader.query import Engine
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.scene import small_chunks

TYPES = {
    "small": (pa.int32(), pa.int64()),
    "float": (pa.float32(), pa.float64()),
    "text": (pa.string(), None),
}
NAMES = ("k", "a", "b", "c", "d")
"""Few, so that names are used again and exchanged."""
Rows = Counter[tuple[object, ...]]


@dataclass
class Column:
    """A column: its id never changes."""

    id: int
    name: str
    kind: str
    type: pa.DataType

    def value(self, number: int) -> object:
        if self.kind == "text":
            return f"{self.id}-{number % 7}"
        return number % 5 if self.kind == "float" else number % 9


@dataclass
class Model:
    """A table, and what it must hold."""

    work_dir: Path
    world: World = field(default_factory=lambda: World.manual(seed=5))
    columns: list[Column] = field(default_factory=list)
    rows: list[dict[int, object]] = field(default_factory=list)
    ids: count[int] = field(default_factory=lambda: count(1))
    numbers: count[int] = field(default_factory=lambda: count(1))
    stale: tuple[Table, list[Column]] | None = None

    def __post_init__(self) -> None:
        self.columns = [self.column("k", "small"), self.column("a", "text")]
        self.bucket = MemoryBucket(self.world.clock)
        definition = Definition.create(self.schema(self.columns), sort_by=["k"])
        index_log.create(self.bucket, self.world, definition)
        self.table = self.opened()

    def opened(self) -> Table:
        return Table.open_bucket(self.bucket, self.world)

    def column(self, name: str, kind: str) -> Column:
        return Column(next(self.ids), name, kind, TYPES[kind][0])

    def schema(self, columns: list[Column]) -> pa.Schema:
        return pa.schema([(one.name, one.type) for one in columns])

    def free(self) -> list[str]:
        return [name for name in NAMES if name not in {one.name for one in self.columns}]

    def append(self, pick: int) -> None:
        self._append(self.table, self.columns)

    def append_stale(self, pick: int) -> None:
        """A handle that has not seen the newest definition; it does after its commit."""
        if self.stale is not None:
            self._append(*self.stale)
        self.stale = (self.opened(), [Column(**vars(one)) for one in self.columns])

    def _append(self, table: Table, columns: list[Column]) -> None:
        self.world.clock.sleep(1)
        made = [
            {one.id: one.value(number * 31) for one in columns}
            for number in (next(self.numbers) for _ in range(4))
        ]
        made[-1] = {one.id: None if one.id != 1 else made[-1][1] for one in columns}
        values = {one.name: [row[one.id] for row in made] for one in columns}
        table.append(pa.table(values, schema=self.schema(columns)))
        self.rows += made

    def add(self, pick: int) -> None:
        free = self.free()
        if free:
            made = self.column(free[pick % len(free)], list(TYPES)[pick % 3])
            self.table.alter(add=[pa.field(made.name, made.type)])
            self.columns.append(made)

    def rename(self, pick: int) -> None:
        free = self.free()
        if free:
            one = self.columns[pick % len(self.columns)]
            new = free[pick % len(free)]
            self.table.alter(rename={one.name: new})
            one.name = new

    def exchange(self, pick: int) -> None:
        """Two columns get each other's names."""
        if len(self.columns) > 1:
            one, other = self.columns[0], self.columns[1 + pick % (len(self.columns) - 1)]
            self.table.alter(rename={one.name: other.name, other.name: one.name})
            one.name, other.name = other.name, one.name

    def drop(self, pick: int) -> None:
        left = [one for one in self.columns if one.id != 1]
        if left:
            gone = left[pick % len(left)]
            self.table.alter(drop=[gone.name])
            self.columns.remove(gone)

    def drop_and_add(self, pick: int) -> None:
        """Another column with the name of the dropped one, of the same type or not."""
        left = [one for one in self.columns if one.id != 1]
        if left:
            gone = left[pick % len(left)]
            kind = gone.kind if pick % 2 else list(TYPES)[pick % 3]
            made = self.column(gone.name, kind)
            self.table.alter(drop=[gone.name], add=[pa.field(made.name, made.type)])
            self.columns.remove(gone)
            self.columns.append(made)

    def reorder(self, pick: int) -> None:
        at = pick % len(self.columns)
        if at:
            first = self.columns[at]
            self.table.alter(reorder=[first.name])
            self.columns.remove(first)
            self.columns.insert(0, first)

    def widen(self, pick: int) -> None:
        one = self.columns[pick % len(self.columns)]
        wide = TYPES[one.kind][1]
        if wide is not None and one.type != wide:
            self.table.alter(widen={one.name: wide})
            one.type = wide

    def evolve(self, pick: int) -> None:
        """New columns come with their rows."""
        free = self.free()
        if free:
            made = self.column(free[pick % len(free)], list(TYPES)[pick % 3])
            self.world.clock.sleep(1)
            columns = [*self.columns, made]
            row = {one.id: one.value(next(self.numbers)) for one in columns}
            values = {one.name: [row[one.id]] for one in columns}
            self.table.append(pa.table(values, schema=self.schema(columns)), evolve=True)
            self.rows.append(row)
            self.columns.append(made)

    def delete(self, pick: int) -> None:
        name = next(one.name for one in self.columns if one.id == 1)
        self.table.delete(f'"{name}" = {pick % 9}')
        self.rows = [row for row in self.rows if row[1] != pick % 9]

    def merge(self, pick: int) -> None:
        compact_once(self.table, Settings(tier_blocks=2, work_dir=self.work_dir))

    def merge_in_pieces(self, pick: int) -> None:
        engine = InPieces()
        compact_once(self.table, Settings(tier_blocks=2, work_dir=self.work_dir), engine=engine)

    def expected(self) -> Rows:
        return Counter(tuple(row.get(one.id) for one in self.columns) for row in self.rows)

    def check(self) -> None:
        names = [one.name for one in self.columns]
        self.table.poll()
        snapshot = self.table.snapshot()
        found = snapshot.scan().to_table()
        assert found.schema.names == names
        assert [one.type for one in found.schema] == [one.type for one in self.columns]
        assert tally(found) == self.expected()
        with Engine({"t": snapshot}) as engine:
            with engine.query("SELECT * FROM t") as answer:
                read = answer.read_all()
            assert read.schema.names == names
            assert tally(read) == self.expected()
            for one in self.columns:
                where = literal(one, one.value(3))
                wanted = sum(row.get(one.id) == one.value(3) for row in self.rows)
                assert snapshot.scan(where=where).to_table().num_rows == wanted
                with engine.query(f"SELECT count(*) AS n FROM t WHERE {where}") as answer:
                    assert answer.read_all()["n"].to_pylist() == [wanted]
                nulls = sum(row.get(one.id) is None for row in self.rows)
                missing = f'"{one.name}" IS NULL'
                assert snapshot.scan(where=missing).to_table().num_rows == nulls


class InPieces:
    """A merge engine that cuts every merge, as a distributed one does."""

    def merge(self, bucket, world, task: MergeTask, options: MergeOptions):  # type: ignore[no-untyped-def]
        pieces = Pieces()
        parts = [pieces.merge(bucket, world, part, options) for part in pieces.cut(bucket, task, 3)]
        whole = pieces.together(task, parts)
        assert whole is not None
        return whole if whole.written.rows else LocalEngine().merge(bucket, world, task, options)


def literal(column: Column, value: object) -> str:
    shown = f"'{value}'" if column.kind == "text" else str(value)
    return f'"{column.name}" = {shown}'


def tally(rows: pa.Table) -> Rows:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


STEPS = (
    "append",
    "append_stale",
    "add",
    "rename",
    "exchange",
    "drop",
    "drop_and_add",
    "reorder",
    "widen",
    "evolve",
    "delete",
    "merge",
    "merge_in_pieces",
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 40)), min_size=4, max_size=16))
def test_any_sequence_of_changes_equals_the_model(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder, small_chunks():
        model = Model(Path(folder))
        model.append(0)
        for step, pick in steps:
            getattr(model, step)(pick)
        model.check()
        model.merge(0)
        model.check()


SERIES = {
    "a dropped column's name": ["append", "drop_and_add", "append", "drop_and_add", "append"],
    "the sort key exchanged": ["append", "add", "append", "exchange", "append", "append_stale"],
    "a writer that is late": ["append_stale", "drop", "append_stale", "drop_and_add"],
    "new columns with rows": ["append", "evolve", "append_stale", "rename", "append_stale"],
}


@pytest.mark.parametrize("merge", ["merge", "merge_in_pieces"])
@pytest.mark.parametrize("pick", [0, 1, 2, 3])
@pytest.mark.parametrize("series", SERIES)
def test_a_series_is_the_same_before_and_after_a_merge(
    tmp_path: Path, series: str, pick: int, merge: str
) -> None:
    with small_chunks():
        model = Model(tmp_path)
        for step in SERIES[series]:
            getattr(model, step)(pick)
            model.check()
        getattr(model, merge)(0)
        model.check()
        assert len(model.table.snapshot().blocks) == 1


def test_a_condition_on_a_dropped_column_names_the_others(tmp_path: Path) -> None:
    model = Model(tmp_path)
    model.append(0)
    model.drop(0)
    with pytest.raises(Invalid, match="no column 'a'"):
        model.table.snapshot().scan(where="a = 'x'").to_table()
