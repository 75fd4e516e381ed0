"""Reading with Spark: with every engine the rows are exactly those of one snapshot."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.format import BlockMeta, BlockWriter, Parent, VisibleBy, block_meta
from blockstore.format.fields import RESERVED
from blockstore.index.added import AddedBlock
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.lifecycle.upload import finish_upload
from blockstore.predicate import parse
from blockstore.spark.reading.filters import to_spark
from tests.spark.rows import every_type, flights, values

Read = Callable[..., DataFrame]


def by_format(session: SparkSession, url: str, **options: object) -> DataFrame:
    return session.read.format("blockstore").options(**options).load(url)


def by_read(session: SparkSession, url: str, **options: object) -> DataFrame:
    if isinstance(options.get("columns"), str):
        options["columns"] = str(options["columns"]).split(",")
    return bs_spark.read(session, url, engine="native", **options)


def by_python(session: SparkSession, url: str, **options: object) -> DataFrame:
    if isinstance(options.get("columns"), str):
        options["columns"] = str(options["columns"]).split(",")
    return bs_spark.read(session, url, engine="python", **options)


@pytest.fixture(params=[by_format, by_read, by_python], ids=["format", "native", "python"])
def read(request: pytest.FixtureRequest) -> Read:
    return request.param


@pytest.fixture
def url(spark_session: SparkSession, tmp_path: Path) -> str:
    """Three days of flights in versions 2, 3 and 4."""
    url = str(tmp_path / "flights")
    for day in (1, 2, 3):
        rows = flights(
            spark_session, ("EWR", 1, 10 * day), ("JFK", 2, day), ("LGA", 3, -day), day=day
        )
        bs_spark.append(rows.coalesce(1), url, time_column="at", sort_by=["origin", "at"])
    return url


def test_all_rows_of_the_newest_version(spark_session: SparkSession, read: Read, url: str) -> None:
    found = read(spark_session, url)
    assert found.columns == ["origin", "at", "delay"]
    assert sorted(row.delay for row in found.collect()) == [-3, -2, -1, 1, 2, 3, 10, 20, 30]
    assert found.count() == 9


def test_an_earlier_version(spark_session: SparkSession, read: Read, url: str) -> None:
    assert sorted(row.delay for row in read(spark_session, url, version=3).collect()) == [
        -2,
        -1,
        1,
        2,
        10,
        20,
    ]
    assert read(spark_session, url, version=1).count() == 0


def test_the_version_of_a_moment(spark_session: SparkSession, read: Read, url: str) -> None:
    committed = {entry.id: entry.time for entry in bs.open(url).history()}
    moment = dt.datetime.fromtimestamp(committed[4] / 1000, dt.UTC).isoformat()
    assert read(spark_session, url, as_of=moment).count() == 9
    with pytest.raises(Exception, match="yesterday"):
        read(spark_session, url, as_of="yesterday").count()


def test_an_unknown_version_and_an_unknown_table_are_named(
    spark_session: SparkSession, read: Read, url: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="99"):
        read(spark_session, url, version=99).count()
    with pytest.raises(Exception, match="nowhere"):
        read(spark_session, str(tmp_path / "nowhere")).count()


def test_only_the_requested_columns_are_read(
    spark_session: SparkSession, read: Read, url: str
) -> None:
    found = read(spark_session, url, columns="delay,origin")
    assert found.columns == ["delay", "origin"]
    assert found.where("origin = 'EWR'").agg(sf.sum("delay")).collect()[0][0] == 60
    with pytest.raises(Exception, match="gate"):
        read(spark_session, url, columns="gate").count()


def test_a_condition_is_exact(spark_session: SparkSession, read: Read, url: str) -> None:
    found = read(spark_session, url, where="delay > 1 AND origin <> 'LGA'")
    assert sorted(row.delay for row in found.collect()) == [2, 3, 10, 20, 30]
    by_time = read(
        spark_session, url, where="at >= TIMESTAMP '2024-01-03 00:00:00'", columns="delay"
    )
    assert sorted(row.delay for row in by_time.collect()) == [-3, 3, 30]
    with pytest.raises(Exception, match="gate"):
        read(spark_session, url, where="gate = 1").count()


def test_chunks_that_cannot_match_are_not_read(spark_session: SparkSession, url: str) -> None:
    found = bs_spark.read(
        spark_session, url, where="at >= TIMESTAMP '2024-01-02' AND at < TIMESTAMP '2024-01-03'"
    )
    assert len(found.inputFiles()) == 1
    assert found.count() == 3
    assert by_format(spark_session, url, where="delay > 1000").rdd.getNumPartitions() == 1


CONDITIONS = (
    "flag = TRUE", "i8 < 0", "i64 >= 9223372036854775807", "i32 IN (2147483647, 5)",
    "i16 NOT IN (32767)",
    "f32 > 1", "f64 > 1", "f64 <= 1", "f64 = 1.5", "f32 <> 1.5", "text = ''", "text LIKE 'ü%'",
    "NOT text LIKE 'ü%'",
    "bytes = ''", "day < DATE '0001-01-03'", "day >= DATE '1970-01-01'",
    "instant < TIMESTAMP '1900-01-01 00:00:00'",
    "instant = TIMESTAMP '2024-11-03 05:30:00'", "local > TIMESTAMP '2000-01-01 00:00:00'",
    "local = TIMESTAMP '0001-01-02 00:00:00.000001'", "money > 0", "small BETWEEN -1000 AND 0.5",
    "list IS NULL",
    "struct IS NOT NULL", "i8 IS NULL OR text = ''", "NOT (i8 > 0 OR text IS NULL)",
    "i8 > 0 AND flag IS NOT NULL",
)  # fmt: skip


def test_every_condition_means_the_same_to_spark_and_to_us(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    url = str(tmp_path / "types")
    bs_spark.append(every_type(spark_session), url)
    snapshot = bs.open(url).snapshot()
    columns = [
        to_spark(parse(condition, snapshot.definition.schema).node) for condition in CONDITIONS
    ]
    assert [
        condition for condition, column in zip(CONDITIONS, columns, strict=True) if column is None
    ] == []
    rows = bs_spark.read(spark_session, url).select("id", *columns).collect()
    for position, condition in enumerate(CONDITIONS, start=1):
        ours = snapshot.scan(columns=["id"], where=condition).to_table()["id"].to_pylist()
        assert sorted(row.id for row in rows if row[position]) == sorted(ours), condition


def test_the_data_source_can_be_insisted_on(spark_session: SparkSession, url: str) -> None:
    found = bs_spark.read(
        spark_session, url, engine="python", columns=["delay"], where="origin = 'EWR'"
    )
    assert sorted(row.delay for row in found.collect()) == [10, 20, 30]
    assert found.inputFiles() == []


def test_how_returns_the_engine_and_the_reason(
    spark_session: SparkSession, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="blockstore.spark"):
        found = bs_spark.read(spark_session, url, where="at >= TIMESTAMP '2024-01-03'")
    chosen = bs_spark.how(found)
    assert (chosen.engine, chosen.version, chosen.chunks, chosen.rows) == ("native", 4, 1, 3)
    assert "version 4 by Spark's Parquet reader" in caplog.text
    assert bs_spark.how(spark_session, url, where="at >= TIMESTAMP '2024-01-03'") == chosen
    forced = bs_spark.read(spark_session, url, engine="python")
    assert (bs_spark.how(forced).engine, forced.inputFiles()) == ("python", [])
    hidden = bs_spark.how(spark_session, url, columns=["_source"])
    assert (hidden.engine, hidden.reason) == ("python", "_source must be computed from the index")
    with pytest.raises(bs.Invalid, match="was not returned by"):
        bs_spark.how(found.where("delay > 1"))
    with pytest.raises(bs.Invalid, match="expected one of 'auto', 'native', 'python'"):
        bs_spark.read(spark_session, url, engine="fast")


def test_the_version_of_a_tag(spark_session: SparkSession, read: Read, url: str) -> None:
    bs.open(url).tag("checked", version=2)
    assert sorted(row.delay for row in read(spark_session, url, tag="checked").collect()) == [
        -1,
        1,
        10,
    ]
    with pytest.raises(Exception, match="its tags: 'checked'"):
        read(spark_session, url, tag="other").count()


def test_a_listing_shows_what_no_entry_names_yet(
    spark_session: SparkSession, read: Read, url: str
) -> None:
    table = bs.open(url)
    table.alter(properties={"sync_delay": "0s"})
    late = pa.table({"origin": ["BOS"], "at": [0], "delay": [99]}, schema=table.definition.schema)
    table.append(late, publish=False)
    assert read(spark_session, url).count() == 9
    found = read(spark_session, url, discovery="list")
    assert found.count() == 10
    assert [row.delay for row in found.where("origin = 'BOS'").collect()] == [99]
    table.append(late, publish=False)
    assert found.count() == 10, "a DataFrame is the listing that it was made from"


def test_a_large_chunk_is_shared_by_tasks(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "large")
    make = BlockWriter.__init__
    monkeypatch.setattr(
        BlockWriter, "__init__", lambda *a, **o: make(*a, **{**o, "row_group_rows": 1_000})
    )
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = bs.create(url, schema=schema)
    table.append(
        pa.table(
            {"id": list(range(8_000)), "text": [f"{n * 7919:x}" for n in range(8_000)]},
            schema=schema,
        )
    )
    found = by_format(spark_session, url, partition_size="8KiB", columns="id,_row_id")
    assert found.rdd.getNumPartitions() > 3
    assert found.where("id = _row_id").count() == found.select("id").distinct().count() == 8_000


def test_columns_as_one_text_are_refused(spark_session: SparkSession, url: str) -> None:
    with pytest.raises(bs.Invalid, match=r"expected a list of column names: \['delay'\]"):
        bs_spark.read(spark_session, url, columns="delay")


@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_column_is_found_whatever_its_name(
    spark_session: SparkSession, tmp_path: Path, engine: str
) -> None:
    url = str(tmp_path / "odd")
    names = ["a", "b", "a,b", " a", "b ", '["a"]', '["a']
    schema = pa.schema([(name, pa.int64()) for name in names])
    bs.create(url, schema=schema).append(pa.table([[n] for n in range(len(names))], schema=schema))
    for asked in (["a,b"], ['["a"]'], [" a", "b "], names):
        (found,) = bs_spark.read(spark_session, url, columns=asked, engine=engine).collect()
        assert found.asDict() == {name: names.index(name) for name in asked}


def test_filters_of_a_query_change_no_other_query(spark_session: SparkSession, url: str) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    spark_session.conf.set(setting, "true")
    try:
        with pytest.raises(Exception, match=r"option filters='true'.*option\('where', …\)"):
            by_format(spark_session, url, filters="true")
        rows = by_format(spark_session, url, filters="false")
        some = rows.where("delay = -3")
        assert (some.count(), rows.count(), some.union(rows).count()) == (1, 9, 10)
    finally:
        spark_session.conf.unset(setting)


def test_a_dataframe_keeps_its_version_while_the_table_grows(
    spark_session: SparkSession, read: Read, url: str
) -> None:
    found = read(spark_session, url)
    bs_spark.append(flights(spark_session, ("BOS", 1, 99), day=9), url)
    assert found.count() == 9
    assert found.where("origin = 'BOS'").count() == 0
    assert read(spark_session, url).count() == 10


def test_old_blocks_are_read_under_the_newer_schema(
    spark_session: SparkSession, read: Read, url: str
) -> None:
    bs.open(url).alter(add=[pa.field("gate", pa.string())], widen={"delay": pa.int64()})
    wide = flights(spark_session, ("BOS", 1, 0), day=9).select(
        "origin", "at", (sf.lit(2**40)).alias("delay"), sf.lit("B7").alias("gate")
    )
    bs_spark.append(wide, url)
    found = read(spark_session, url)
    assert [field.dataType.simpleString() for field in found.schema] == [
        "string",
        "timestamp",
        "bigint",
        "string",
    ]
    rows = {(row.delay, row.gate) for row in found.collect()}
    assert rows == {(delay, None) for delay in (-3, -2, -1, 1, 2, 3, 10, 20, 30)} | {(2**40, "B7")}
    assert {
        row.delay for row in read(spark_session, url, where="gate IS NULL AND delay > 9").collect()
    } == {
        10,
        20,
        30,
    }


def test_labels_are_constant_columns_of_their_blocks(
    spark_session: SparkSession, read: Read, tmp_path: Path
) -> None:
    url = str(tmp_path / "labelled")
    bs_spark.append(spark_session.range(2), url, labels={"cluster": "eu1"})
    bs_spark.append(spark_session.range(2, 3), url, labels={"cluster": "us1"})
    found = read(spark_session, url)
    assert sorted((row.id, row.cluster) for row in found.collect()) == [
        (0, "eu1"),
        (1, "eu1"),
        (2, "us1"),
    ]
    assert [row.id for row in read(spark_session, url, where="cluster = 'us1'").collect()] == [2]


def test_reserved_columns_are_read_when_named(spark_session: SparkSession, url: str) -> None:
    sources = {
        row._source for row in by_format(spark_session, url, columns="_source,delay").collect()
    }
    assert sources == {block.meta.ulid for block in bs.open(url).snapshot().blocks}


def test_an_empty_table_is_an_empty_dataframe(
    spark_session: SparkSession, read: Read, tmp_path: Path
) -> None:
    url = str(tmp_path / "empty")
    bs.create(url, schema=pa.schema([("id", pa.int64())]))
    assert read(spark_session, url).count() == 0
    assert read(spark_session, url).columns == ["id"]


def test_metadata_of_a_column_reaches_the_dataframe(
    spark_session: SparkSession, read: Read, tmp_path: Path
) -> None:
    url = str(tmp_path / "described")
    described = {"blockstore.unit": "m", "comment": "a length"}
    bs_spark.append(spark_session.range(3).withMetadata("id", described), url)
    bs_spark.append(spark_session.range(3).withMetadata("id", {"comment": "another"}), url)
    assert read(spark_session, url).schema["id"].metadata == described
    assert read(spark_session, url).count() == 6


def test_a_path_that_spark_takes_for_a_pattern_is_read_by_the_data_source(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    url = str(tmp_path / "odd [name]")
    bs_spark.append(spark_session.range(3), url)
    assert values(bs_spark.read(spark_session, url)) == values(spark_session.range(3))
    with pytest.raises(bs.Invalid, match="native"):
        bs_spark.read(spark_session, url, engine="native")


def test_types_that_sparks_parquet_reader_lacks_are_read_by_the_data_source(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    url = str(tmp_path / "odd")
    rows = pa.table(
        {
            "u": pa.array([0, 2**64 - 1, None], pa.uint64()),
            "t": pa.array([1000, 2000, None], pa.timestamp("ns")),
        }
    )
    bs.create(url, schema=rows.schema).append(rows)
    found = bs_spark.read(spark_session, url).collect()
    assert {row.u for row in found} == {0, 2**64 - 1, None}
    assert {row.t for row in found} == {
        dt.datetime(1970, 1, 1, 0, 0, 0, 1),
        dt.datetime(1970, 1, 1, 0, 0, 0, 2),
        None,
    }


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_nan_is_found_whatever_the_files_bounds_say(
    spark_session: SparkSession, tmp_path: Path, type_: pa.DataType
) -> None:
    url, nan = str(tmp_path / "floats"), float("nan")
    inner = pa.struct([("y", type_)])
    table = bs.create(url, schema=pa.schema([("k", pa.int64()), ("x", type_), ("s", inner)]))
    for keys, floats in (([1, 2, 3], [1.0, nan, 2.0]), ([4, 5, 6], [1.0, nan, 1.0])):
        columns = {
            "k": keys,
            "x": pa.array(floats, type_),
            "s": pa.array([{"y": one} for one in floats], inner),
        }
        table.append(pa.table(columns, schema=table.definition.schema))
    for where, expected in (
        ("x > 5", [2, 5]),
        ("x <> 1", [2, 3, 5]),
        ("NOT x <= 5", [2, 5]),
        ("x = 'nan'", [2, 5]),
        ("x < 3", [1, 3, 4, 6]),
        ("s.y > 5", [2, 5]),
    ):
        found = bs_spark.read(spark_session, url).where(where).collect()
        assert sorted(row.k for row in found) == expected, where
    assert "may contain NaN" in bs_spark.how(spark_session, url).reason
    assert bs_spark.how(spark_session, url, columns=["k"]).engine == "native"


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("where", ["x = 0", "x >= 0", "x IN (0, 5)"])
def test_minus_zero_is_zero_also_in_a_dictionary(
    spark_session: SparkSession, tmp_path: Path, type_: pa.DataType, where: str
) -> None:
    url = str(tmp_path / "zeros")
    table = bs.create(url, schema=pa.schema([("x", type_)]))
    floats = pa.array([-0.0] * 20_000 + [-1.0] * 20_000, type_)
    table.append(pa.table({"x": floats}, schema=table.definition.schema))
    assert bs_spark.how(spark_session, url, where=where).engine == "native"
    assert bs_spark.read(spark_session, url, where=where).count() == 20_000
    assert bs_spark.read(spark_session, url).where(where).count() == 20_000


def test_nanoseconds_that_spark_cannot_hold_are_refused_by_name(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    url = str(tmp_path / "fine")
    rows = pa.table({"t": pa.array([1001], pa.timestamp("ns"))})
    bs.create(url, schema=rows.schema).append(rows)
    with pytest.raises(Exception, match=r"column 't'.*nanoseconds"):
        bs_spark.read(spark_session, url).collect()


def test_registering_by_hand_does_the_same(spark_session: SparkSession, url: str) -> None:
    session = spark_session.newSession()
    bs_spark.register(session)
    assert by_format(session, url).count() == 9


def test_a_missing_chunk_fails_the_query_with_its_block(
    spark_session: SparkSession, read: Read, url: str
) -> None:
    lost = next(iter(bs.open(url).snapshot().blocks)).meta
    (Path(url) / lost.ulid / lost.files[0].path).unlink()
    spark_session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=lost.ulid):
            read(spark_session, url).collect()
    finally:
        spark_session.conf.unset("spark.sql.files.ignoreMissingFiles")


class TestMergedBlocks:
    """A merge carries the source of every row, and rows of a reverted source are hidden."""

    @pytest.fixture
    def merged(self, url: str) -> tuple[str, ...]:
        """The table's three blocks as one of level 2, of which the first source is excepted."""
        table = bs.open(url)
        inputs = [block.meta for block in table.snapshot().blocks]
        merged = merge(table, inputs)
        commit(table, Operation.COMPACT, add=(AddedBlock(meta=merged),), remove=merged.sources)
        commit(table, Operation.REVERT, excepts={merged.ulid: merged.sources[:1]})
        return merged.sources

    def test_rows_of_an_excepted_source_are_hidden(
        self, spark_session: SparkSession, read: Read, url: str, merged: tuple[str, ...]
    ) -> None:
        assert sorted(row.delay for row in read(spark_session, url).collect()) == [
            -3,
            -2,
            2,
            3,
            20,
            30,
        ]
        assert read(spark_session, url).count() == 6
        assert read(spark_session, url, where="delay < 0", columns="origin").count() == 2

    def test_each_row_names_its_source(
        self, spark_session: SparkSession, url: str, merged: tuple[str, ...]
    ) -> None:
        rows = by_format(spark_session, url, columns="delay,_source").collect()
        assert {row._source for row in rows} == set(merged[1:])
        with pytest.raises(bs.Invalid, match="_source"):
            by_read(spark_session, url, columns=["delay", "_source"])

    @pytest.mark.parametrize("name", ["_row_id", "_version"])
    def test_row_ids_of_a_merge_are_refused(
        self, spark_session: SparkSession, read: Read, url: str, merged: tuple[str, ...], name: str
    ) -> None:
        with pytest.raises(
            Exception, match=f"does not have {name}, since it is a merge or a rewrite"
        ):
            read(spark_session, url, columns=f"delay,{name}").collect()
        with pytest.raises(
            Exception, match=f"does not have {name}, since it is a merge or a rewrite"
        ):
            read(spark_session, url, columns="delay", where=f"{name} > 0").collect()


def merge(table: bs.Table, inputs: list[BlockMeta]) -> BlockMeta:
    """A complete block of level 2 with the rows of ``inputs``, unpublished."""
    rows = table.snapshot().scan(columns=[*table.definition.schema.names, "_source"]).to_table()
    ulid = table.world.ids.ulid()
    writer = BlockWriter(
        table.bucket,
        table.world,
        ulid,
        table.definition,
        producer="test",
        extra_columns=("_source",),
    )
    writer.write(rows.set_column(3, RESERVED["_source"], rows["_source"].dictionary_encode()))
    meta = block_meta(
        writer.finish(),
        ulid=ulid,
        definition=table.definition,
        visible_by=VisibleBy.INDEX,
        producer="test",
        level=2,
        sources=tuple(sorted(meta.ulid for meta in inputs)),
        parents=tuple(
            Parent(ulid=m.ulid, min_time=m.min_time, max_time=m.max_time) for m in inputs
        ),
    )
    return finish_upload(table.bucket, table.world, meta)


def commit(table: bs.Table, operation: Operation, **draft: object) -> None:
    @dataclass(kw_only=True)
    class Given(Change):
        operation: Operation
        commit: str

        def draft(self, state: State) -> Draft:
            return Draft(**draft)  # type: ignore[arg-type]

    table.log.commit(Given(operation=operation, commit=table.world.ids.ulid()))
