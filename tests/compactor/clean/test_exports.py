"""The export that the process keeps up to date: current, whole after any crash, and no debris."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.clean.exports import Exporter
from blockstore.export.delta.export import LAST, LOG
from blockstore.export.formats import FORMATS
from blockstore.export.iceberg.export import HINT, METADATA
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.operations.drop import drop_table
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import FaultyBucket, Killed
from tests.support.tally import tally

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])
DAY = 86_400.0


class Scene:
    """A table in memory, and a clock that only the test moves."""

    def __init__(self) -> None:
        self.world = World.manual(seed=5)
        self.bucket = MemoryBucket(self.world.clock)
        definition = Definition.create(SCHEMA, key="id")
        index_log.create(self.bucket, self.world, definition)
        self.table = self.opened()

    def opened(self, bucket: Bucket | None = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world, discovery=None, dropped=True)

    def upsert(self, *ids: int) -> None:
        rows = pa.table({"id": list(ids), "n": [self.table.poll()] * len(ids)}, SCHEMA)
        self.table.upsert(rows)

    def wait(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    def objects(self) -> set[str]:
        return {info.key for info in self.bucket.list(METADATA)}

    def newest(self) -> int:
        """The version that a reader of the hint finds, with all that it names."""
        name = self.bucket.get(HINT).data.decode().strip()
        return self.whole(f"{METADATA}{name}.metadata.json")

    def whole(self, document: str) -> int:
        """Check that all objects that a document names are there; return its version."""
        said = json.loads(self.bucket.get(document).data)
        location = f"{said['location']}/"
        for snapshot in said["snapshots"]:
            for listed in self._avro(snapshot["manifest-list"].removeprefix(location)):
                for entry in self._avro(listed["manifest_path"].removeprefix(location)):
                    self.bucket.head(entry["data_file"]["file_path"].removeprefix(location))
        version: int = said["current-snapshot-id"]
        return version

    def check_documents(self) -> None:
        for key in self.objects():
            if key.endswith(".metadata.json"):
                self.whole(key)

    def _avro(self, key: str) -> list[Any]:
        return list(fastavro.reader(io.BytesIO(self.bucket.get(key).data)))


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.upsert(1, 2, 3)
    return made


def test_a_new_version_is_exported_and_an_old_one_is_not_written_again(scene: Scene) -> None:
    exporter = Exporter(scene.table, FORMATS["iceberg"])
    first = exporter.run()
    assert first.version == scene.newest() == scene.table.poll()
    assert first.written > 0
    before = scene.objects()
    assert exporter.run().written == 0
    assert scene.objects() == before
    scene.upsert(2)
    assert exporter.run().version == scene.newest() == scene.table.poll()


def test_objects_of_old_versions_go_a_delete_delay_after_they_are_named_no_more(
    scene: Scene,
) -> None:
    exporter = Exporter(scene.table, FORMATS["iceberg"])
    exporter.run()
    old = scene.objects()
    scene.wait(30 * DAY)
    exporter.run()
    assert scene.objects() == old, "what the newest document names stays, however old it is"
    scene.upsert(2, 4)
    exporter.run()
    scene.wait(1.9 * DAY)
    assert exporter.run().removed == 0
    scene.check_documents()
    scene.wait(0.2 * DAY)
    kept = exporter.run()
    assert kept.removed == len(old - {HINT} - scene.objects()) > 0
    assert scene.newest() == kept.version
    assert exporter.run().removed == 0


def test_what_an_engine_wrote_and_did_not_commit_goes_a_delete_delay_later(scene: Scene) -> None:
    exporter = Exporter(scene.table, FORMATS["iceberg"])
    scene.bucket.put("incoming/data/old.parquet", b"old")
    exporter.run()
    scene.wait(DAY)
    scene.bucket.put("incoming/data/new.parquet", b"new")
    assert exporter.run().removed == 0
    scene.wait(DAY)
    assert exporter.run().removed == 1
    assert [info.key for info in scene.bucket.list("incoming/")] == ["incoming/data/new.parquet"]
    assert scene.newest() == scene.table.poll()


def test_what_a_tag_names_stays(scene: Scene) -> None:
    exporter = Exporter(scene.table, FORMATS["iceberg"])
    scene.table.tag("then")
    exporter.run()
    scene.upsert(1, 2, 3)
    exporter.run()
    scene.wait(9 * DAY)
    exporter.run()
    name = scene.bucket.get(HINT).data.decode().strip()
    document = json.loads(scene.bucket.get(f"{METADATA}{name}.metadata.json").data)
    assert len(document["snapshots"]) == 2
    assert scene.newest() == scene.table.poll()


def test_an_object_that_was_lost_is_written_again(scene: Scene) -> None:
    exporter = Exporter(scene.table, FORMATS["iceberg"])
    exporter.run()
    whole = scene.objects()
    for key in sorted(whole - {HINT}):
        scene.bucket.delete([key])
        assert exporter.run().written == 1
        assert scene.objects() == whole


def test_nothing_is_left_of_the_export_of_a_dropped_table(scene: Scene) -> None:
    exporter = Exporter(scene.table, FORMATS["iceberg"])
    exporter.run()
    drop_table(scene.table.log, scene.world)
    assert exporter.run().version is None
    assert scene.objects()
    scene.wait(2.1 * DAY)
    assert exporter.run().removed > 0
    assert scene.objects() <= {HINT}


@pytest.mark.parametrize("fault", ["kill_before", "kill_after"])
def test_a_document_is_whole_wherever_the_pass_was_killed(fault: str) -> None:
    call = 0
    while True:
        call += 1
        scene = Scene()
        scene.upsert(1, 2, 3)
        Exporter(scene.table, FORMATS["iceberg"]).run()
        scene.table.tag("then")
        scene.upsert(2)
        faulty = FaultyBucket(scene.bucket, **{fault: call})  # type: ignore[arg-type]
        try:
            exporter = Exporter(scene.opened(faulty), FORMATS["iceberg"])
            exporter.run()
            scene.wait(3 * DAY)
            exporter.run()
        except Killed:
            pass
        if call > len(faulty.calls):
            break
        scene.check_documents()
        tally("crash points")
        second = Exporter(scene.opened(), FORMATS["iceberg"])
        second.run()
        assert scene.newest() == scene.table.poll()
        scene.wait(3 * DAY)
        second.run()
        left = scene.objects()
        assert scene.newest() == scene.table.poll()
        assert len([key for key in left if key.endswith(".metadata.json")]) == 1
    assert call > 30


def test_deltas_log_is_kept_like_iceberg_metadata(scene: Scene) -> None:
    """One checkpoint and the vectors that it names; those of former versions go."""
    exporter = Exporter(scene.table, FORMATS["delta"])
    scene.upsert(2)
    exporter.run()
    scene.upsert(1)
    assert exporter.run().version == scene.table.poll()
    assert exporter.run().written == 0
    before = {info.key for info in scene.bucket.list(LOG)}
    assert len([key for key in before if key.endswith(".checkpoint.parquet")]) == 2
    scene.wait(3 * DAY)
    assert exporter.run().removed == 2
    (checkpoint,) = [
        info.key for info in scene.bucket.list(LOG) if info.key.endswith(".checkpoint.parquet")
    ]
    assert json.loads(scene.bucket.get(LAST).data)["version"] == scene.table.poll()
    for action in pq.read_table(io.BytesIO(scene.bucket.get(checkpoint).data)).to_pylist():
        if action["add"] is not None:
            scene.bucket.head(action["add"]["path"])
    left = {info.key for info in scene.bucket.list(LOG)}
    for key in sorted(left - {LAST}):
        scene.bucket.delete([key])
        assert exporter.run().written == 1
