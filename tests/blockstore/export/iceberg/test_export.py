"""The Iceberg export: a function of the version, in few new objects, and nothing that Iceberg could
read wrongly."""

from __future__ import annotations

import io
import json
import math
from decimal import Context, Decimal
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.clock import ManualClock
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import Invalid
from blockstore.export.exported import Memo
from blockstore.export.iceberg import export as exporting
from blockstore.export.iceberg.export import export_iceberg
from blockstore.export.iceberg.schema import partition_spec, schema_of
from blockstore.export.iceberg.values import bound
from blockstore.ids import Ids
from blockstore.index import ulids

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])


def rows(ids: range, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, SCHEMA)


def objects(table: bs.Table) -> dict[str, bytes]:
    keys = [info.key for info in table.bucket.list("metadata/")]
    return {key: table.bucket.get(key).data for key in keys}


def document(table: bs.Table) -> dict[str, Any]:
    done = export_iceberg(table)
    return json.loads(table.bucket.get(f"metadata/{done.metadata.rpartition('/')[2]}").data)


def avro(table: bs.Table, url: str) -> list[Any]:
    data = table.bucket.get(f"metadata/{url.rpartition('/')[2]}").data
    return list(fastavro.reader(io.BytesIO(data)))


def test_the_same_version_is_the_same_objects_wherever_it_is_exported(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, key="id")
    for first in range(3):
        table.upsert(rows(range(first, first + 4), first))
    done = export_iceberg(table)
    made = objects(table)
    assert done.deletes == 6
    assert export_iceberg(bs.open(table.url)).written == 0
    for key in made:
        table.bucket.delete([key])
    assert export_iceberg(bs.open(table.url)).written == done.written
    assert objects(table) == made


def test_a_new_block_changes_one_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_END_BITS", 1)
    table = bs.create(f"{tmp_path}/t?durable=false", schema=SCHEMA)
    for first in range(24):
        table.append(rows(range(first, first + 1)))
    export_iceberg(table)
    table.append(rows(range(99, 100)))
    before = set(objects(table))
    export_iceberg(table)
    new = sorted(
        key.removeprefix("metadata/").split("-")[0] for key in set(objects(table)) - before
    )
    assert new == ["data", "snap", "v26"]
    assert len([key for key in objects(table) if "/data-" in key]) > 4


@pytest.mark.parametrize("random_part", [True, False], ids=["random", "counted"])
def test_where_groups_of_blocks_end_follows_from_their_names(random_part: bool) -> None:
    clock = ManualClock(1_700_000_000_000)
    ids = Ids.seeded(clock, 1)
    listed = []
    for number in range(20_000):
        clock.advance(1)
        ulid = ids.ulid()
        listed.append(ulid if random_part else f"{ulid[:10]}{number:016}")
    names = ulids.from_texts(listed)
    groups = list(exporting._groups(names))
    assert [first for first, _ in groups] == [0, *(end for _, end in groups[:-1])]
    assert groups[-1][1] == len(names)
    sizes = [end - first for first, end in groups]
    assert 20 <= len(sizes) <= 80
    assert max(sizes) <= 1_024
    assert list(exporting._groups(names[:15_000]))[:-1] == [
        one for one in groups if one[1] < 15_000
    ]
    less = np.delete(names, 10)
    assert list(exporting._groups(less))[-5:] == [(a - 1, b - 1) for a, b in groups[-5:]]


def test_what_a_manifest_says_of_a_file(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
    table = bs.create(f"{tmp_path}/t", schema=schema, labels={"site": "a"})
    table.append(pa.table({"id": [3, 1], "f": [math.nan, 2.5], "s": [None, "z" * 70]}, schema))
    said = document(table)
    (listed,) = avro(table, said["snapshots"][0]["manifest-list"])
    assert listed["partition_spec_id"] == said["default-spec-id"] != 0
    (entry,) = avro(table, listed["manifest_path"])
    file = entry["data_file"]
    pairs = {
        name: {one["key"]: one["value"] for one in file[name]}
        for name in ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    assert pairs["null_value_counts"] == {1: 0, 2: 0, 3: 1}
    assert pairs["nan_value_counts"] == {2: 1}
    assert pairs["lower_bounds"][1] == (1).to_bytes(8, "little")
    assert pairs["upper_bounds"][1] == (3).to_bytes(8, "little")
    assert pairs["upper_bounds"][3] >= b"z" * 64, "no value lies above a bound that was cut"
    assert file["partition"] == {"label_0": "a"}
    assert (file["record_count"], entry["sequence_number"]) == (2, 1)
    assert said["properties"]["gc.enabled"] == "false"


def test_hidden_rows_are_position_deletes_and_files_without_a_row_are_left_out(
    tmp_path: Path,
) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, row_ids=True)
    table.append(rows(range(3)))
    table.append(rows(range(3, 6)))
    table.delete_rows([0, 1, 2, 4])
    done = export_iceberg(table)
    assert (done.files, done.deletes) == (1, 1)
    said = document(table)
    manifests = avro(table, said["snapshots"][0]["manifest-list"])
    assert [one["content"] for one in manifests] == [0, 1]
    (data,) = avro(table, manifests[0]["manifest_path"])
    (deletes,) = avro(table, manifests[1]["manifest_path"])
    assert deletes["sequence_number"] == done.version
    assert deletes["data_file"]["referenced_data_file"] == data["data_file"]["file_path"]
    name = deletes["data_file"]["file_path"].rpartition("/")[2]
    found = pq.read_table(io.BytesIO(table.bucket.get(f"metadata/{name}").data)).to_pylist()
    assert found == [{"file_path": data["data_file"]["file_path"], "pos": 1}]


def test_tags_are_references_to_snapshots_of_their_own(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)))
    table.tag("then")
    table.alter(add=[pa.field("more", pa.string())])
    said = document(bs.open(table.url))
    assert {name: ref["type"] for name, ref in said["refs"].items()} == {
        "then": "tag",
        "main": "branch",
    }
    assert len(said["snapshots"]) == len(said["schemas"]) == 2
    assert said["current-snapshot-id"] == bs.open(table.url).snapshot().version


def test_the_log_of_snapshots_has_no_version_before_one_that_is_not_exported(
    tmp_path: Path,
) -> None:
    """A tag's rows would be those of every moment up to the newest version."""
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)))
    table.tag("then")
    for first in (3, 6):
        table.append(rows(range(first, first + 3)))
    said = document(table)
    assert len(said["snapshots"]) == 2
    newest = said["snapshots"][-1]
    assert said["snapshot-log"] == [
        {"snapshot-id": newest["snapshot-id"], "timestamp-ms": newest["timestamp-ms"]}
    ]


@pytest.mark.parametrize(
    ("kind", "batches"),
    [
        (pa.timestamp("s"), "false"),
        (pa.timestamp("ms", "UTC"), "false"),
        (pa.timestamp("us"), None),
    ],
)
def test_spark_reads_coarse_timestamps_row_by_row(
    tmp_path: Path, kind: pa.DataType, batches: str | None
) -> None:
    table = bs.create(f"{tmp_path}/t", schema=pa.schema([("at", kind), ("n", pa.int32())]))
    table.append(pa.table({"at": pa.array([0], kind), "n": pa.array([1], pa.int32())}))
    name = "read.parquet.vectorization.enabled"
    assert document(table)["properties"].get(name) == batches
    table.tag("then")
    table.alter(drop=["at"])
    assert document(bs.open(table.url))["properties"].get(name) == batches, "at the tag"


def test_a_tag_called_as_the_branch_is_left_out_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)))
    table.tag("main")
    table.append(rows(range(3, 6)))
    said = document(bs.open(table.url))
    assert said["refs"] == {
        "main": {"snapshot-id": said["current-snapshot-id"], "type": "branch"},
    }
    assert len(said["snapshots"]) == 1
    assert "the tag 'main' is left out of the Iceberg export" in caplog.text


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (pa.uint8(), "column 'x' has the type uint8"),
        (pa.timestamp("ns"), r"column 'x' has the type timestamp\[ns\]"),
        (
            pa.struct([("deep", pa.list_(pa.uint64()))]),
            "column 'x.deep.element' has the type uint64",
        ),
        (pa.duration("s"), "column 'x' has the type duration"),
    ],
)
def test_a_type_that_iceberg_lacks_is_refused_before_anything_is_written(
    tmp_path: Path, kind: pa.DataType, shown: str
) -> None:
    table = bs.create(f"{tmp_path}/t", schema=pa.schema([("x", kind)]))
    with pytest.raises(Invalid, match=shown):
        export_iceberg(table)
    assert objects(table) == {}


def test_a_table_without_an_index_is_refused(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, index=False)
    with pytest.raises(Invalid, match="has no index"):
        export_iceberg(table)


@pytest.mark.parametrize(
    ("kind", "now", "stat", "expected"),
    [
        (pa.int32(), pa.int64(), -1, b"\xff" * 8),
        (pa.int8(), pa.int8(), 5, b"\x05\x00\x00\x00"),
        (pa.float32(), pa.float64(), 0.5, b"\x00\x00\x00\x00\x00\x00\xe0\x3f"),
        (pa.float64(), pa.float64(), "Infinity", None),
        (pa.bool_(), pa.bool_(), True, b"\x01"),
        (pa.decimal128(9, 2), pa.decimal128(9, 2), "-1.28", b"\x80"),
        (pa.decimal128(9, 2), pa.decimal128(9, 2), "1.28", b"\x00\x80"),
        (pa.timestamp("ms", "UTC"), pa.timestamp("ms", "UTC"), 2, (2000).to_bytes(8, "little")),
        (pa.timestamp("ms"), pa.timestamp("ms"), 2**63 - 1, None),
        (pa.timestamp("s", "UTC"), pa.timestamp("s", "UTC"), -(2**63) // 1_000_000 - 1, None),
        (pa.timestamp("us"), pa.timestamp("us"), -(2**63), b"\x00" * 7 + b"\x80"),
        (pa.date32(), pa.date32(), 1, b"\x01\x00\x00\x00"),
        (pa.string(), pa.string(), "ä", "ä".encode()),
        (pa.int64(), pa.int64(), None, None),
    ],
)
def test_bounds_are_icebergs_single_values(
    kind: pa.DataType, now: pa.DataType, stat: Any, expected: bytes | None
) -> None:
    assert bound(kind, now, stat) == expected


@pytest.mark.parametrize("digits", range(27, 39))
@pytest.mark.parametrize("sign", ["", "-"])
def test_bounds_of_long_decimals_are_the_values(digits: int, sign: str) -> None:
    unscaled = int(sign + ("1234567890" * 4)[: digits - 1] + "7")
    for scale in range(digits + 1):
        kind = pa.decimal128(38, scale)
        stat = format(Decimal(unscaled).scaleb(-scale, Context(prec=77)), "f")
        found = bound(kind, kind, stat)
        assert found is not None
        assert int.from_bytes(found, "big", signed=True) == unscaled, stat


def test_a_moment_that_iceberg_cannot_hold_leaves_the_export_whole(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.timestamp("ms"))])
    table = bs.create(f"{tmp_path}/t", schema=schema)
    table.append(pa.table({"at": pa.array([2**63 - 1, 0], pa.timestamp("ms"))}))
    said = document(table)
    (listed,) = avro(table, said["snapshots"][0]["manifest-list"])
    (entry,) = avro(table, listed["manifest_path"])
    file = entry["data_file"]
    assert [one["value"] for one in file["lower_bounds"]] == [bytes(8)]
    assert not file["upper_bounds"]


def test_labels_have_ids_that_follow_from_their_names() -> None:
    one = partition_spec(["site"])["fields"][0]
    both = partition_spec(["rack", "site"])["fields"]
    assert one in both
    assert partition_spec(["rack"])["spec-id"] != partition_spec(["site"])["spec-id"]
    fields = schema_of(pa.schema([]), ["site"], 1)["fields"]
    assert fields[0]["id"] == one["source-id"]


def test_a_tag_shows_no_label_that_came_later(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)))
    table.tag("then")
    table.append(rows(range(3)), labels={"site": "a"})
    said = document(table)
    columns = {
        schema["schema-id"]: [one["name"] for one in schema["fields"]] for schema in said["schemas"]
    }
    then, now = (columns[one["schema-id"]] for one in said["snapshots"])
    assert (then, now) == (["id", "n"], ["id", "n", "site"])
    assert columns[said["current-schema-id"]] == now


def test_the_newest_version_has_the_labels_of_every_tag(tmp_path: Path) -> None:
    """Engines look there for the column of a partition, whichever version they read."""
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)), labels={"site": "a"})
    table.tag("then")
    table.delete("id >= 0")
    table.append(rows(range(2)))
    said = document(table)
    (current,) = [one for one in said["schemas"] if one["schema-id"] == said["current-schema-id"]]
    sources = {one["source-id"] for spec in said["partition-specs"] for one in spec["fields"]}
    assert [one["name"] for one in current["fields"]] == ["id", "n", "site"]
    assert sources <= {one["id"] for one in current["fields"]}
    table.alter(add=[pa.field("Site", pa.int64())])
    said = document(table)
    (current,) = [one for one in said["schemas"] if one["schema-id"] == said["current-schema-id"]]
    assert [one["name"] for one in current["fields"]] == ["id", "n", "Site"]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_remembered_gives_the_same_export(tmp_path: Path, seed: int) -> None:
    """With a memo, also after objects were lost: the same objects as without."""
    random, memo = Random(seed), Memo()
    table = bs.create(f"{tmp_path}/t?durable=false", schema=SCHEMA, key="id")
    for step in range(6):
        table.upsert(rows(range(random.randrange(8), 10), step))
        if random.random() < 0.3:
            table.tag(f"t{step}")
        if random.random() < 0.3:
            compact_once(table, Settings(tier_blocks=2))
        there = sorted(objects(table))
        table.bucket.delete(random.sample(there, len(there) // 3))
        memo.begin(set(objects(table)))
        made = export_iceberg(table, memo)
        assert made.objects <= set(objects(table))
        alone = export_iceberg(bs.open(table.url))
        assert (alone.objects, alone.document) == (made.objects, made.document)
        assert alone.written == 0
