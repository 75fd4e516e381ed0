"""The Delta export: a function of the version, and nothing that Delta could read wrongly."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import Invalid
from blockstore.export.delta.export import LAST, LOG, export_delta
from blockstore.export.delta.schema import schema_of
from blockstore.export.delta.vectors import vector
from blockstore.export.exported import Memo
from tests.support.faulty import FaultyBucket

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])


def rows(ids: range, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, SCHEMA)


def objects(table: bs.Table) -> dict[str, bytes]:
    keys = [info.key for info in table.bucket.list(LOG)]
    return {key: table.bucket.get(key).data for key in keys}


def actions(table: bs.Table) -> dict[str, list[dict[str, Any]]]:
    """What the newest checkpoint says, by kind."""
    version = json.loads(table.bucket.get(LAST).data)["version"]
    data = table.bucket.get(f"{LOG}{version:020}.checkpoint.parquet").data
    found: dict[str, list[dict[str, Any]]] = {}
    for row in pq.read_table(io.BytesIO(data)).to_pylist():
        for kind, said in row.items():
            if said is not None:
                found.setdefault(kind, []).append(said)
    return found


def test_the_same_version_is_the_same_objects_wherever_it_is_exported(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, key="id")
    for first in range(3):
        table.upsert(rows(range(first, first + 4), first))
    done = export_delta(table)
    made = objects(table)
    assert done.deletes == 6
    assert export_delta(bs.open(table.url)).written == 0
    for key in made:
        table.bucket.delete([key])
    assert export_delta(bs.open(table.url)).written == done.written
    assert objects(table) == made


def test_what_the_log_says_of_a_table_and_its_files(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, key="id", labels={"site": "a"})
    table.upsert(rows(range(5)))
    table.upsert(rows(range(2), 7))
    export_delta(table)
    found = actions(table)
    (protocol,), (meta,) = found["protocol"], found["metaData"]
    assert protocol["minReaderVersion"] == 3
    assert protocol["readerFeatures"] == ["deletionVectors", "columnMapping"]
    assert "blockstore" in protocol["writerFeatures"]
    assert meta["partitionColumns"] == ["site"]
    first, second = sorted(found["add"], key=lambda one: one["path"])
    assert first["deletionVector"]["cardinality"] == 2
    assert second["deletionVector"] is None
    assert dict(first["partitionValues"]) == {"site": "a"}
    stats = json.loads(first["stats"])
    assert (stats["numRecords"], stats["minValues"]["id"], stats["maxValues"]["id"]) == (5, 0, 4)


def test_bounds_of_a_file_with_hidden_rows_are_said_to_be_wide(tmp_path: Path) -> None:
    """An engine would answer min() and max() with values of hidden rows."""
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, key="id")
    table.upsert(rows(range(5)))
    table.upsert(rows(range(2), 7))
    export_delta(table)
    first, second = sorted(actions(table)["add"], key=lambda one: one["path"])
    assert json.loads(first["stats"])["tightBounds"] is False
    assert "tightBounds" not in json.loads(second["stats"])


def test_a_label_that_is_the_empty_text_is_refused(tmp_path: Path) -> None:
    """Delta takes it for null."""
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)), labels={"site": "x"})
    table.append(rows(range(3)))
    export_delta(table)
    table.append(rows(range(3)), labels={"site": ""})
    with pytest.raises(Invalid, match="the label 'site' is the empty text"):
        export_delta(table)
    assert len(actions(table)["add"]) == 2, "the last export stays"


def test_a_table_that_needs_no_feature_is_for_every_reader(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(5)))
    export_delta(table)
    (protocol,) = actions(table)["protocol"]
    assert (protocol["minReaderVersion"], protocol["readerFeatures"]) == (1, None)
    assert (protocol["minWriterVersion"], protocol["writerFeatures"]) == (7, ["blockstore"])


def test_columns_that_delta_would_mistake_are_refused_until_a_merge_has_rewritten_them(
    tmp_path: Path,
) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)))
    table.alter(rename={"n": "m"})
    with pytest.raises(Invalid, match=r"column 'm' .* as 'n'.* when merges have"):
        export_delta(table)
    table.append(pa.table({"id": [9], "m": pa.array([1], pa.int32())}))
    compact_once(table, Settings(tier_blocks=2))
    export_delta(table)
    assert len(actions(table)["add"]) == 1


def test_another_column_of_the_same_name_and_a_wider_type_are_refused(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA)
    table.append(rows(range(3)))
    table.alter(drop=["n"])
    table.alter(add=[pa.field("n", pa.int32())])
    with pytest.raises(Invalid, match="column 'n' is now int32"):
        export_delta(table)
    other = bs.create(f"{tmp_path}/u", schema=SCHEMA)
    other.append(rows(range(3)))
    other.alter(widen={"n": pa.int64()})
    with pytest.raises(Invalid, match=r"column 'n' is now int64, .* of int32"):
        export_delta(other)


@pytest.mark.parametrize(
    "kind", [pa.uint8(), pa.timestamp("ns"), pa.timestamp("ms"), pa.time64("us")]
)
def test_a_type_that_delta_lacks_is_refused_with_the_column(kind: pa.DataType) -> None:
    with pytest.raises(Invalid, match=r"'inner.x' has the type"):
        schema_of(pa.schema([("inner", pa.struct([("x", kind)]))]), [])


def test_a_table_without_an_index_is_refused(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, index=False)
    with pytest.raises(Invalid, match="has no index"):
        export_delta(table)


@given(st.sets(st.integers(0, 2**33), min_size=1, max_size=50), st.integers(0, 3))
def test_a_vector_holds_the_positions_that_it_was_made_of(positions: set[int], dense: int) -> None:
    wanted = np.array(sorted(positions | set(range(dense * 5_000))), np.int64)
    made = vector("_delta_log", "b/chunks/1.parquet", wanted)
    version, size = struct.unpack(">BI", made.data[:5])
    bitmap = made.data[made.said["offset"] + 4 : -4]
    assert (version, size) == (1, len(bitmap) == made.said["sizeInBytes"] and len(bitmap))
    assert struct.unpack("<I", bitmap[:4]) == (1681511377,)
    assert struct.unpack(">I", made.data[-4:]) == (zlib.crc32(bitmap),)
    assert list(BitMap64.deserialize(bitmap[4:])) == wanted.tolist()
    assert made.said["cardinality"] == len(wanted)


def test_a_vector_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=SCHEMA, key="id")
    table.upsert(rows(range(5)))
    table.upsert(rows(range(2), 7))
    memo = Memo()
    first = export_delta(table, memo)
    table.upsert(rows(range(10, 12)))
    counted = FaultyBucket(table.bucket)
    again = bs.Table.open_bucket(counted, table.world)
    memo.begin(set(objects(table)))
    second = export_delta(again, memo)
    written = [call.key for call in counted.writes]
    assert written == [f"{LOG}{second.version:020}.checkpoint.parquet", LAST]
    (vector_key,) = (key for key in first.objects if key.endswith(".bin"))
    assert vector_key in second.objects
