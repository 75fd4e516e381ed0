"""What below a URL counts as a table: folders of others take none of its tables away."""

from __future__ import annotations

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import Bucket, open_bucket
from blockstore.errors import AccessDenied, Unavailable
from blockstore.names import BOUNDARY, entry_key
from blockstore.operations.place import folders, is_table, may_be_table
from blockstore.world import World
from tests.support.faulty import FaultyBucket

SCHEMA = pa.schema([("row", pa.int64())])


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> Bucket:
    return open_bucket(f"memory://{request.node.name}", World.real())


def test_a_table_has_an_index_even_a_damaged_one_or_a_complete_block(lake: Bucket) -> None:
    bs.create(f"{lake.url}/indexed", schema=SCHEMA)
    open_bucket(f"{lake.url}/damaged", World.real()).put(entry_key(1), b"no entry")
    bs.create(f"{lake.url}/blocks", schema=SCHEMA, index=False).append(
        pa.table({"row": [1]}, schema=SCHEMA)
    )
    lake.put("notes/file.txt", b"mine")
    assert folders(lake) == ["blocks", "damaged", "indexed", "notes"]
    found = {
        name: is_table(open_bucket(f"{lake.url}/{name}", World.real())) for name in folders(lake)
    }
    assert found == {"blocks": True, "damaged": True, "indexed": True, "notes": False}


def test_what_a_file_system_keeps_for_itself_is_no_folder_of_a_lake(lake: Bucket) -> None:
    lake.put("lost+found/#12345", b"a piece of a file")
    lake.put("lost/file", b"x")
    assert folders(lake) == ["lost"]


def test_what_cannot_be_read_may_be_a_table_and_a_silent_store_raises() -> None:
    bucket = open_bucket("memory://locked", World.real())
    assert may_be_table(FaultyBucket(bucket, refuse={1: AccessDenied("locked: permission denied")}))
    bucket.put(BOUNDARY, b"no number")
    assert may_be_table(bucket)
    with pytest.raises(Unavailable):
        may_be_table(FaultyBucket(bucket, refuse={1: Unavailable("no answer")}))
