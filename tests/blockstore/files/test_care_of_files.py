"""Care of files: verify finds what is missing or damaged, a replica has what its rows name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Check, Finding
from blockstore.care.repair import RepairOptions, StepKind, plan_repair
from blockstore.care.repair.target import Target
from blockstore.care.replicate import Replicator
from blockstore.care.verify.table import verify
from blockstore.errors import BlockstoreError, Corrupt, NotFound
from blockstore.format.definition import Definition
from blockstore.format.file_handle import FileHandle
from blockstore.index import log as index_log
from blockstore.names import FILE_RECORD, FILES, file_key
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import FaultyBucket, Killed

SCHEMA = bs.typed_schema([("name", "string"), bs.file("doc")])


def elsewhere(world: World) -> MemoryBucket:
    """Another place than the first bucket's."""
    return MemoryBucket(world.clock, "memory://elsewhere")


@dataclass
class Made:
    world: World
    bucket: MemoryBucket
    table: Table
    handles: list[FileHandle]


@pytest.fixture
def made() -> Made:
    """Two rows with a file each, and a file that no row names."""
    world = World.manual(seed=1, now_ms=1_700_000_000_000)
    bucket = MemoryBucket(world.clock)
    table = Table(
        bucket, world, index_log.create(bucket, world, Definition.create(SCHEMA, row_ids=True))
    )
    handles = [table.put_file(data, name="f") for data in (b"one", b"two", b"left")]
    for handle in handles[:2]:
        append(table, handle)
    return Made(world, bucket, table, handles)


def append(table: Table, handle: FileHandle) -> None:
    found: list[dict[str, Any]] = [{"name": "x", "doc": handle}]
    table.append(pa.Table.from_pylist(found, schema=SCHEMA))


def found(made: Made, *, deep: bool = False) -> list[Finding]:
    report = verify(made.bucket, made.world, deep=deep)
    return [one for one in report.findings if one.check is Check.CELL]


@pytest.mark.parametrize("deep", [False, True])
def test_a_table_whose_files_are_there_has_no_finding(made: Made, deep: bool) -> None:
    assert verify(made.bucket, made.world, deep=deep).findings == ()


@pytest.mark.parametrize("path", ["f", FILE_RECORD])
def test_a_missing_file_of_a_row_is_an_error(made: Made, path: str) -> None:
    file = made.handles[1]["id"]
    made.bucket.delete([file_key(file, path)])
    (one,) = found(made)
    assert (one.object, str(one.severity)) == (f"files/{file}/", "error")
    assert "'doc'" in one.what
    assert "from a replica" in one.fix


def test_a_file_of_another_size_is_an_error(made: Made) -> None:
    made.bucket.put(file_key(made.handles[1]["id"], "f"), b"t")
    (one,) = found(made)
    assert "has 1 bytes, expected 3" in one.what


def test_a_wrong_byte_is_found_by_a_deep_check(made: Made) -> None:
    made.bucket.put(file_key(made.handles[1]["id"], "f"), b"twx")
    assert found(made) == []
    (one,) = found(made, deep=True)
    assert "another SHA-256" in one.what


def test_a_missing_file_of_a_former_version_is_found_too(made: Made) -> None:
    made.table.set_cells([{"_row_id": 1, "doc": None}])
    made.bucket.delete([file_key(made.handles[1]["id"], "f")])
    assert len(found(made)) == 1


def test_a_repair_says_what_verify_says_of_a_file_that_only_a_tag_needs() -> None:
    world = World.manual(seed=1, now_ms=1_700_000_000_000)
    bucket = MemoryBucket(world.clock)
    table = Table(bucket, world, index_log.create(bucket, world, Definition.create(SCHEMA)))
    append(table, table.put_file(b"one", name="f"))
    table.tag("kept")
    table.delete("true")
    bucket.delete([info.key for info in bucket.list(FILES)])
    (one,) = verify(bucket, world).findings
    assert ("untag" in one.fix, "null" in one.fix) == (True, False)
    target = Target(
        bucket=bucket,
        world=world,
        log=table.log_or_none,
        definition=table.definition,
        catalog=table.catalog,
    )
    (step,) = plan_repair(bucket, world, target, RepairOptions()).steps
    assert (step.kind, step.object) == (StepKind.PERSON, one.object)
    assert step.what == f"{one.what}; {one.fix}"


def test_a_replica_has_the_files_of_its_rows(made: Made) -> None:
    target = elsewhere(made.world)
    replicator = Replicator(made.bucket, target, made.world)
    replicator.once()
    replica = Table.open_bucket(target, made.world)
    assert [replica.open_file(row, "doc").read() for row in (0, 1)] == [b"one", b"two"]
    folders = {info.key.split("/")[1] for info in target.list(FILES)}
    assert folders == {handle["id"] for handle in made.handles[:2]}
    append(made.table, made.handles[2])
    faulty = FaultyBucket(target)
    Replicator(made.bucket, faulty, made.world).once()
    assert replica.open_file(2, "doc").read() == b"left"
    sent = {call.key.split("/")[1] for call in faulty.writes if call.key.startswith(FILES)}
    assert sent == {made.handles[2]["id"]}


def test_a_replica_that_died_at_any_write_never_shows_a_row_without_its_file(made: Made) -> None:
    counted = FaultyBucket(elsewhere(made.world))
    Replicator(made.bucket, counted, made.world).once()
    for call in counted.writes:
        target = elsewhere(made.world)
        with pytest.raises(Killed):
            Replicator(
                made.bucket, FaultyBucket(target, kill_before=call.number), made.world
            ).once()
        try:
            replica = Table.open_bucket(target, made.world)
        except BlockstoreError:
            continue
        for handle in replica.snapshot().scan(columns=["doc"]).to_table()["doc"].to_pylist():
            replica.open_handle(handle).read()
        Replicator(made.bucket, target, made.world).once()
        assert replica.open_file(1, "doc").read() == b"two"


def test_a_damaged_file_stops_the_copy_before_its_version(made: Made) -> None:
    made.bucket.put(file_key(made.handles[1]["id"], "f"), b"twx")
    target = elsewhere(made.world)
    with pytest.raises(Corrupt, match="another SHA-256"):
        Replicator(made.bucket, target, made.world).once()
    assert [info.key for info in target.list(file_key(made.handles[1]["id"], ""))] == []
    with pytest.raises(NotFound):
        Table.open_bucket(target, made.world)
