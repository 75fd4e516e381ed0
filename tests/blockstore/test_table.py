"""What a user holds: create, open, append, write, alter, snapshot, history, diff - and what they
say to bad input."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.names import BOUNDARY, entry_key, meta_key
from blockstore.world import World
from tests.support.rows import multiset
from tests.support.sealing import unsealed

UTC = dt.UTC
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("n", pa.int32())])


def rows(*numbers: int, key: str = "a") -> pa.Table:
    start = dt.datetime(2024, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "k": [key] * len(numbers),
            "at": [start + dt.timedelta(hours=n) for n in numbers],
            "n": list(numbers),
        },
        schema=SCHEMA,
    )


@pytest.fixture(params=["memory", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}" if request.param == "memory" else str(tmp_path / "table")


@pytest.fixture
def table(url: str) -> bs.Table:
    return bs.create(url, schema=SCHEMA, time_column="at", sort_by=["k", "at"])


class TestAppend:
    def test_every_append_is_one_block_and_one_version(self, table: bs.Table) -> None:
        first, second = table.append(rows(3, 1, 2)), table.append(rows(5, 4))
        assert (first.version, second.version) == (2, 3)
        assert (first.published, first.rows) == (True, 3)
        assert [block.meta.ulid for block in table.snapshot().blocks] == sorted(
            [str(first.ulid), str(second.ulid)]
        )
        assert multiset(table.snapshot().scan().to_table()) == multiset(
            pa.concat_tables([rows(1, 2, 3), rows(4, 5)])
        )

    def test_rows_are_sorted_by_the_sort_key(self, table: bs.Table) -> None:
        table.append(pa.concat_tables([rows(3, 1, key="b"), rows(2, 0, key="a")]))
        found = table.snapshot().scan().to_table()
        assert list(zip(found["k"].to_pylist(), found["n"].to_pylist(), strict=True)) == [
            ("a", 0), ("a", 2), ("b", 1), ("b", 3),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "convert",
        [
            lambda t: t,
            lambda t: t.to_reader(),
            lambda t: t.to_batches()[0],
            lambda t: t.to_batches(max_chunksize=1),
            lambda t: t.to_pandas(),
            pl.from_arrow,
            lambda t: t.select(["n", "at", "k"]),
        ],
        ids=["table", "reader", "batch", "batches", "pandas", "polars", "other order"],
    )
    def test_anything_that_speaks_arrow_is_taken(self, table: bs.Table, convert: Any) -> None:
        table.append(convert(rows(1, 2, 3)))
        assert multiset(table.snapshot().scan().to_table()) == multiset(rows(1, 2, 3))

    def test_no_rows_make_no_block(self, table: bs.Table) -> None:
        answer = table.append(rows())
        assert (answer.ulid, answer.rows, answer.published) == (None, 0, False)
        assert table.snapshot().version == 1
        assert len(table.snapshot().blocks) == 0

    def test_an_empty_batch_among_others_does_not_matter(self, table: bs.Table) -> None:
        table.append(
            [
                *rows().to_batches(),
                *rows(1).to_batches(),
                rows().to_batches()[0] if rows().to_batches() else rows(2).to_batches()[0],
            ]
        )
        assert table.snapshot().count() >= 1

    def test_a_handle_reads_its_own_writes_and_another_handle_too(
        self, table: bs.Table, url: str
    ) -> None:
        table.append(rows(1))
        assert table.snapshot().count() == 1
        assert bs.open(url).snapshot().count() == 1

    def test_an_unpublished_append_is_durable_and_not_yet_visible(self, table: bs.Table) -> None:
        answer = table.append(rows(1, 2), publish=False)
        assert (answer.version, answer.published) == (None, False)
        assert table.snapshot().count() == 0
        assert table.bucket.head(meta_key(str(answer.ulid))).size > 0

    def test_an_unpublished_append_is_discovered_by_its_age_and_counts_once(self, url: str) -> None:
        world = World.manual(now_ms=1_700_000_000_000)
        table = bs.create(url, schema=SCHEMA, world=world)
        table.append(rows(1))
        late = table.append(rows(2, 3), publish=False)
        lister = bs.open(url, discovery="list", world=world)
        assert lister.snapshot().count() == 1, "younger than sync_delay"
        world.clock.sleep(16 * 60)
        assert lister.snapshot().count() == 3
        assert multiset(lister.snapshot().scan().to_table()) == multiset(rows(1, 2, 3))
        assert bs.open(url, world=world).snapshot().count() == 1, (
            "the index alone does not know it yet"
        )
        assert table.append(rows(2, 3), resume=late.ulid).published
        assert (lister.snapshot().count(), bs.open(url, world=world).snapshot().count()) == (3, 3)

    def test_an_unknown_way_of_discovery_is_refused(self, table: bs.Table, url: str) -> None:
        with pytest.raises(bs.Invalid, match="discovery"):
            bs.open(url, discovery="guess")

    def test_resuming_an_append_finishes_the_same_block_and_adds_nothing_twice(
        self, table: bs.Table
    ) -> None:
        first = table.append(rows(1, 2), publish=False)
        resumed = table.append(rows(1, 2), resume=first.ulid)
        assert (resumed.ulid, resumed.published) == (first.ulid, True)
        again = table.append(rows(1, 2), resume=first.ulid)
        assert again.ulid == first.ulid
        assert table.snapshot().count() == 2


class TestJob:
    def test_a_job_counts_once(self, table: bs.Table) -> None:
        first = table.append(rows(1), job=bs.Job(app="load", batch=1))
        again = table.append(rows(1), job=bs.Job(app="load", batch=1))
        assert (again.ulid, again.version, again.published) == (first.ulid, first.version, True)
        assert table.snapshot().count() == 1

    def test_another_handle_knows_the_job_too(self, table: bs.Table, url: str) -> None:
        first = table.append(rows(1), job=bs.Job(app="load", batch=1))
        assert bs.open(url).append(rows(1), job=bs.Job(app="load", batch=1)).ulid == first.ulid
        assert bs.open(url).snapshot().count() == 1

    def test_a_lower_batch_that_was_never_committed_is_refused_with_the_last_one(
        self, table: bs.Table
    ) -> None:
        table.append(rows(1), job=bs.Job(app="load", batch=5))
        with pytest.raises(bs.Invalid, match=r"load.*5"):
            table.append(rows(2), job=bs.Job(app="load", batch=4))
        assert table.snapshot().count() == 1


class TestWriter:
    def test_many_batches_make_one_block(self, table: bs.Table) -> None:
        with table.writer() as writer:
            for number in range(5):
                writer.write(rows(number))
        assert writer.block is not None
        assert writer.block.rows == 5
        assert len(table.snapshot().blocks) == 1

    def test_an_error_in_the_block_leaves_nothing_visible(self, table: bs.Table) -> None:
        def fail() -> None:
            with table.writer() as writer:
                writer.write(rows(1))
                raise RuntimeError("the caller's own")

        with pytest.raises(RuntimeError, match="the caller's own"):
            fail()
        assert table.snapshot().version == 1
        assert [info.key for info in table.bucket.list() if info.key.endswith("meta.json")] == []


class TestSnapshot:
    def test_a_snapshot_stays_what_it_was(self, table: bs.Table) -> None:
        table.append(rows(1))
        before = table.snapshot()
        table.append(rows(2))
        assert (before.count(), table.snapshot().count()) == (1, 2)
        assert before.scan().to_table().num_rows == 1

    def test_versions_and_times_can_be_read_again(self, table: bs.Table) -> None:
        for number in range(3):
            table.append(rows(number))
        assert [table.snapshot(version=version).count() for version in (1, 2, 3, 4)] == [0, 1, 2, 3]
        times = [entry.time for entry in table.history()]
        assert table.snapshot(as_of=times[-1]).count() == 3
        assert table.snapshot(as_of=times[0]).version >= 1

    def test_a_version_that_never_was_names_the_newest(self, table: bs.Table) -> None:
        table.append(rows(1))
        with pytest.raises(bs.NotFound, match="2"):
            table.snapshot(version=99)
        with pytest.raises(bs.Invalid):
            table.snapshot(version=-1)
        with pytest.raises(bs.Invalid):
            table.snapshot(version=1, as_of=0)

    def test_a_scan_filters_and_projects(self, table: bs.Table) -> None:
        table.append(pa.concat_tables([rows(1, 2, 3), rows(4, 5, key="b")]))
        scan = table.snapshot().scan(columns=["n"], where="k = 'a' and n >= 2")
        assert scan.to_table().to_pydict() == {"n": [2, 3]}
        assert scan.to_pandas()["n"].tolist() == [2, 3]
        assert scan.to_polars()["n"].to_list() == [2, 3]
        assert scan.to_duckdb().fetchall() == [(2,), (3,)]
        assert scan.to_reader().read_all().num_rows == 2

    def test_a_time_range_reads_only_the_blocks_that_can_match(self, table: bs.Table) -> None:
        for day in range(10):
            table.append(rows(24 * day, 24 * day + 1))
        scan = table.snapshot().scan(
            where="at >= TIMESTAMP '2024-01-03T00:00:00Z' and at < TIMESTAMP '2024-01-05T00:00:00Z'"
        )
        assert len(scan.plan.chunks) == 2
        assert sorted(scan.to_table()["n"].to_pylist()) == [48, 49, 72, 73]

    def test_a_lost_chunk_fails_the_query_with_the_blocks_name(self, table: bs.Table) -> None:
        """R11: no silent gaps."""
        lost, kept = table.append(rows(1)), table.append(rows(2))
        chunk = next(info.key for info in table.bucket.list(f"{lost.ulid}/chunks/"))
        table.bucket.delete([chunk])
        with pytest.raises(bs.BlockstoreError, match=str(lost.ulid)):
            table.snapshot().scan().to_table()
        assert kept.ulid is not None

    def test_history_tells_every_version_and_diff_what_changed(self, table: bs.Table) -> None:
        block = table.append(rows(1, 2), message="first rows")
        history = list(table.history())
        assert [(entry.id, str(entry.operation)) for entry in history] == [
            (1, "create"),
            (2, "append"),
        ]
        assert history[-1].message == "first rows"
        change = table.diff(1, 2)
        assert [added.ulid for added in change.added] == [block.ulid]
        assert (change.removed, change.rows) == ((), 2)
        back = table.diff(2, 1)
        assert [removed.ulid for removed in back.removed] == [block.ulid]
        assert back.rows == -2


class TestTypes:
    VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
        "bool": (pa.bool_(), [True, False, None]),
        "i8": (pa.int8(), [-128, 127, None]),
        "u64": (pa.uint64(), [0, 2**64 - 1, None]),
        "f32": (pa.float32(), [1.5, float("inf"), None]),
        "f64": (pa.float64(), [-0.0, float("-inf"), None]),
        "text": (pa.string(), ["", "naïve ✓ " * 20, None]),
        "bytes": (pa.binary(), [b"", b"\x00\xff", None]),
        "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        "naive": (pa.timestamp("us"), [dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), None]),
        "zone": (pa.timestamp("ns", tz="Europe/Berlin"),
         [dt.datetime(1960, 1, 1, tzinfo=UTC), dt.datetime(2024, 6, 1, tzinfo=UTC), None]),
        "money": (pa.decimal128(38, 9), [decimal.Decimal("-1.000000001"),
          decimal.Decimal("12345678901234567890.5"), None]),
        "list": (pa.list_(pa.int64()), [[], [1, None, 3], None]),
        "struct": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
         [{"x": 1, "y": ["a"]}, {"x": None, "y": None}, None]),
        "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None]),
    }  # fmt: skip

    def test_every_type_comes_back_by_value(self, url: str) -> None:
        schema = pa.schema([(name, kind) for name, (kind, _) in self.VALUES.items()])
        data = pa.table(
            {name: pa.array(values, kind) for name, (kind, values) in self.VALUES.items()},
            schema=schema,
        )
        table = bs.create(url, schema=schema)
        table.append(data)
        found = table.snapshot().scan().to_table()
        assert found.to_pylist() == data.to_pylist()
        assert [field.type for field in found.schema] == [field.type for field in schema]

    def test_two_thousand_columns(self, url: str) -> None:
        names = [f"c{number}" for number in range(2000)]
        table = bs.create(url, schema=pa.schema([(name, pa.int32()) for name in names]))
        table.append(
            pa.table({name: pa.array([number], pa.int32()) for number, name in enumerate(names)})
        )
        found = table.snapshot().scan(columns=["c7", "c1999"]).to_table()
        assert found.to_pydict() == {"c7": [7], "c1999": [1999]}
        assert table.snapshot().scan().to_table().num_columns == 2000

    def test_columns_with_strange_names(self, url: str) -> None:
        strange = ["a b", 'quo"te', "dot.ted", "ünï", "select", "A"]
        table = bs.create(
            url, schema=pa.schema([(name, pa.int64()) for name in strange]), sort_by=["dot.ted"]
        )
        table.append(pa.table({name: [2, 1] for name in strange}))
        assert table.snapshot().scan().to_table().column_names == strange
        assert table.snapshot().scan(
            columns=["a b"], where='"dot.ted" = 1'
        ).to_table().to_pydict() == {"a b": [1]}


class TestAlter:
    def test_an_added_column_reads_as_null_in_older_blocks(self, table: bs.Table, url: str) -> None:
        table.append(rows(1))
        table.alter(add=[pa.field("note", pa.string())])
        table.append(rows(2).append_column("note", pa.array(["new"])))
        found = bs.open(url).snapshot().scan().to_table().sort_by("n")
        assert found["note"].to_pylist() == [None, "new"]
        assert table.snapshot(version=2).scan().to_table().column_names == ["k", "at", "n"]

    def test_a_widened_column_reads_wide_in_older_blocks(self, table: bs.Table) -> None:
        table.append(rows(1))
        table.alter(widen={"n": pa.int64()})
        table.append(rows(2).set_column(2, "n", pa.array([2**40], pa.int64())))
        found = table.snapshot().scan(where=f"n <= {2**40}").to_table().sort_by("n")
        assert (found.schema.field("n").type, found["n"].to_pylist()) == (pa.int64(), [1, 2**40])

    def test_what_would_lose_values_is_refused(self, table: bs.Table) -> None:
        for change in (
            {"widen": {"n": pa.int16()}},
            {"widen": {"n": pa.string()}},
            {"widen": {"absent": pa.int64()}},
        ):
            with pytest.raises(bs.Invalid):
                table.alter(**change)
        with pytest.raises(bs.Invalid, match="_source"):
            table.alter(add=[pa.field("_source", pa.string())])
        with pytest.raises(bs.Invalid, match="'n'"):
            table.alter(add=[pa.field("n", pa.int32())])
        assert table.snapshot().version == 1

    def test_a_writer_of_the_older_schema_still_appends(self, table: bs.Table, url: str) -> None:
        """Its handle learns the newer definition when it commits; its block reads with nulls."""
        older = bs.open(url)
        table.alter(add=[pa.field("note", pa.string())])
        assert older.append(rows(1)).published
        assert older.snapshot().scan().to_table()["note"].to_pylist() == [None]


class TestBadInput:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (
                pa.table({"k": ["a"], "at": [dt.datetime(2024, 1, 1, tzinfo=UTC)], "n": ["many"]}),
                ("'n'", "string", "int32"),
            ),
            (pa.table({"k": ["a"], "at": [dt.datetime(2024, 1, 1, tzinfo=UTC)]}), ("lack", "'n'")),
            (rows(1).append_column("extra", pa.array([1])), ("extra", "alter")),
            (rows(1).append_column("_source", pa.array(["x"])), ("_source", "reserved")),
            (
                rows(1).set_column(1, "at", pa.array([None], pa.timestamp("us", tz="UTC"))),
                ("'at'", "null"),
            ),
            (rows(1).set_column(1, "at", pa.array(["yesterday"])), ("'at'", "string")),
            (42, ("int", "expected")),
            ({"k": ["a"]}, ("dict", "expected")),
        ],
        ids=[
            "wrong type",
            "missing column",
            "extra column",
            "reserved name",
            "null time",
            "time as text",
            "a number",
            "a dict",
        ],
    )
    def test_one_sentence_says_what_was_found_and_what_to_do(
        self, table: bs.Table, data: Any, words: tuple[str, ...]
    ) -> None:
        table.append(rows(1))
        with pytest.raises(bs.Invalid) as error:
            table.append(data)
        assert [word for word in words if word not in str(error.value)] == []
        assert "\n" not in str(error.value)
        assert table.snapshot().version == 2
        assert len([info for info in table.bucket.list() if info.key.endswith("meta.json")]) == 1

    def test_a_value_that_does_not_fit_is_refused_and_not_cut(self, table: bs.Table) -> None:
        wide = rows(1).set_column(2, "n", pa.array([2**40], pa.int64()))
        with pytest.raises(bs.Invalid, match="'n'"):
            table.append(wide)

    def test_creating_twice_is_a_conflict_and_changes_nothing(
        self, table: bs.Table, url: str
    ) -> None:
        table.append(rows(1))
        with pytest.raises(bs.Conflict, match="already"):
            bs.create(url, schema=SCHEMA)
        assert bs.open(url).snapshot().count() == 1

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ({"schema": pa.schema([("_row_id", pa.int64())])}, "_row_id"),
            ({"schema": pa.schema([("_blockstore_x", pa.int64())])}, "_blockstore_x"),
            ({"schema": pa.schema([("a", pa.int64()), ("a", pa.int64())])}, "'a'"),
            ({"schema": pa.schema([])}, "column"),
            ({"schema": SCHEMA, "time_column": "when"}, "'when'"),
            ({"schema": SCHEMA, "time_column": "k"}, "'k'"),
            ({"schema": SCHEMA, "sort_by": ["nope"]}, "'nope'"),
            ({"schema": SCHEMA, "properties": {"sync_delay": "yesterday"}}, "sync_delay"),
            ({"schema": SCHEMA, "properties": {"sync_dealy": "15m"}}, "sync_delay"),
            ({"schema": SCHEMA, "properties": {"partial_delay": "1h"}}, "partial_delay"),
        ],
    )
    def test_a_definition_that_cannot_work_is_refused_by_name(
        self, url: str, arguments: dict[str, Any], word: str
    ) -> None:
        with pytest.raises(bs.Invalid, match=word):
            bs.create(url, **arguments)
        with pytest.raises(bs.NotFound):
            bs.open(url)

    def test_an_unknown_table_says_how_to_create_one(self, url: str) -> None:
        with pytest.raises(bs.NotFound, match=r"create"):
            bs.open(url)

    def test_a_path_that_is_no_table_is_told_apart(self, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
        with pytest.raises(bs.NotFound, match="photos"):
            bs.open(str(tmp_path / "photos"))
        with pytest.raises(bs.BlockstoreError, match=r"cat\.jpg"):
            bs.open(str(tmp_path / "photos" / "cat.jpg"))

    def test_a_damaged_entry_stops_whoever_reads_it(self, table: bs.Table, url: str) -> None:
        table.append(rows(1))
        table.bucket.put(entry_key(2), b'{"format": 1, "id": 2')
        with pytest.raises(bs.Corrupt, match="00002"):
            bs.open(url).snapshot()

    def test_a_newer_format_says_what_to_upgrade(self, table: bs.Table, url: str) -> None:
        table.bucket.put(
            entry_key(2),
            unsealed(table.bucket.get(entry_key(1)).data)
            .replace(b'"format":1', b'"format":7')
            .replace(b'"id":1', b'"id":2'),
        )
        with pytest.raises(bs.Corrupt, match=r"(?s)7.*upgrade"):
            bs.open(url).snapshot()

    def test_entries_without_a_boundary_stop_every_process(self, table: bs.Table, url: str) -> None:
        table.append(rows(1))
        table.bucket.delete([BOUNDARY])
        with pytest.raises(bs.BoundaryLost):
            bs.open(url).snapshot()
        with pytest.raises(bs.BoundaryLost):
            bs.create(url, schema=SCHEMA)

    def test_unknown_columns_and_broken_conditions_are_named(self, table: bs.Table) -> None:
        table.append(rows(1))
        snapshot = table.snapshot()
        with pytest.raises(bs.Invalid, match="nope"):
            snapshot.scan(columns=["nope"]).to_table()
        with pytest.raises(bs.Invalid, match="nope"):
            snapshot.scan(where="nope = 1").to_table()
        with pytest.raises(bs.Invalid):
            snapshot.scan(where="k = ").to_table()


def test_pandas_with_a_named_index_keeps_it_as_a_column(url: str) -> None:
    frame = pd.DataFrame({"v": np.arange(3)}, index=pd.Index(["x", "y", "z"], name="id"))
    table = bs.create(url, schema=pa.schema([("id", pa.string()), ("v", pa.int64())]))
    table.append(frame)
    assert table.snapshot().scan().to_table().to_pydict() == {"id": ["x", "y", "z"], "v": [0, 1, 2]}


class TestWhatReadersWouldRefuse:
    """What a reader refuses, no writer may accept: one bad entry would close the table for
    everybody."""

    @pytest.mark.parametrize(
        "options",
        [
            {"job": ("nightly", 1)},
            {"message": 3},
            {"message": "x" * 20_000_000},
            {"message": "\ud800"},
            {"labels": {"a": 1}},
            {"labels": {"a": None}},
            {"labels": {"": "x"}},
            {"labels": {"_source": "x"}},
            {"labels": {"a": "\ud800"}},
        ],
        ids=repr,
    )
    def test_is_refused_by_writers_and_the_table_stays_open(
        self, table: bs.Table, url: str, options: dict[str, Any]
    ) -> None:
        with pytest.raises(bs.Invalid):
            table.append(rows(1), **options)
        assert bs.open(url).append(rows(2)).published
        assert bs.open(url).snapshot().count() == 1

    @pytest.mark.parametrize(
        "arguments",
        [("", 1), (1, 1), ("a", -1), ("a", "1"), ("a", 2**63), ("a", True), ("\ud800", 1)],
    )
    def test_a_job_that_cannot_be_written_cannot_be_made(self, arguments: tuple[Any, Any]) -> None:
        with pytest.raises(bs.Invalid):
            bs.Job(*arguments)

    def test_an_alter_with_a_strange_message_is_refused(self, table: bs.Table) -> None:
        with pytest.raises(bs.Invalid, match="message"):
            table.alter(properties={"sync_delay": "1h"}, message=3)  # type: ignore[arg-type]
        assert table.poll() == 1


class TestAWriteThatIsOver:
    def test_takes_no_more_rows(self, table: bs.Table) -> None:
        with table.writer() as writer:
            writer.write(rows(1))
        with pytest.raises(bs.Invalid, match="over"):
            writer.write(rows(2))
        assert table.snapshot().count() == 1

    def test_keeps_nothing_after_a_refused_batch(self, table: bs.Table) -> None:
        writer = table.writer()
        writer.write(rows(1))
        with pytest.raises(bs.Invalid):
            writer.write(pa.table({"k": [1]}))
        with pytest.raises(bs.Invalid, match="new writer"):
            writer.finish()
        assert table.snapshot().count() == 0


def test_a_table_is_not_created_over_blocks_whose_index_was_lost(table: bs.Table, url: str) -> None:
    block = table.append(rows(1))
    table.bucket.delete(
        [info.key for info in table.bucket.list() if info.key.startswith(("index/", "gc/"))]
    )
    with pytest.raises(bs.Conflict, match="no index"):
        bs.create(url, schema=SCHEMA)
    with pytest.raises(bs.NotFound):
        bs.open(url)
    table.bucket.delete([meta_key(str(block.ulid))])
    assert bs.create(url, schema=SCHEMA).snapshot().count() == 0, (
        "what never became a block hinders nobody"
    )


@pytest.mark.parametrize("url", ["\ud800", "file:///tmp/\ud800"])
def test_a_path_with_half_of_a_surrogate_pair_is_refused(url: str) -> None:
    with pytest.raises(bs.Invalid, match="half of a surrogate pair"):
        bs.create(url, schema=pa.schema([("n", pa.int64())]))
