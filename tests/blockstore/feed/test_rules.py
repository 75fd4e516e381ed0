"""Where the feed may begin and end, what it says beside rows, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.format.definition import Definition
from blockstore.format.identity import VERSION
from blockstore.index import log as index_log
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.operations.drop import Drop, drop_table, undrop_table
from blockstore.operations.expire import expire
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.feed.recorded import by_version
from tests.blockstore.rows.lake import BY_KEY, again, by_id, by_key, rows_of
from tests.compactor.run.changing import DAY_S, Changing

PLAIN = pa.schema([("n", pa.int64())])


def plain(**properties: Any) -> Table:
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    return Table(bucket, world, index_log.create(bucket, world, Definition.create(PLAIN)))


def put(table: Table, *ids: int, name: str = "a") -> int:
    version = table.upsert(rows_of(*({"id": one, "name": name, "n": one} for one in ids))).version
    assert version is not None
    return version


def told(table: Table, after: int, **more: Any) -> list[tuple[int, str, Any]]:
    """What happened, when, and to which row."""
    identity = table.definition.identity
    name = "n" if identity is None else identity.columns[0]
    rows = table.changes(after, **more).to_table().to_pylist()
    return sorted((row[VERSION], row["_change"], row[name]) for row in rows)


def forget(table: Table, *, clean: bool = True) -> int:
    """Let the boundary pass all versions but the last, and remove what nothing names any more."""
    sleep = table.world.clock.sleep
    sleep(31 * DAY_S)
    table.tag("now")
    held = claim(table.log, table.world, COMPACTOR)
    boundary = collect(table.log, table.world, held=held).boundary
    if clean:
        cleaner = Cleaner(table, held)
        for _ in range(4):
            cleaner.run()
            sleep(3 * DAY_S)
    return boundary


def test_changes_say_what_happened_when_and_to_which_row() -> None:
    table = by_id()
    table.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    table.set_cells([{"_row_id": 0, "n": 5}])
    table.delete_rows([1])
    found = table.changes(0, before_images=True).to_table()
    assert found.schema.names == [
        *("_change", "_version", "_time", "_reason", "_row_id"),
        *table.definition.schema.names,
    ]
    time = table.snapshot(version=3).time_ms
    rows = [{**row, "_time": row["_time"].timestamp() * 1000} for row in found.slice(2).to_pylist()]
    common = {"_row_id": 0, "_version": 3, "_time": time, "_reason": None, "name": "a"}
    assert rows[:2] == [
        {**common, "_change": "update_before", "n": 1},
        {**common, "_change": "update", "n": 5},
    ]
    assert [(row["_change"], row["_row_id"], row["name"], row["n"]) for row in rows[2:]] == [
        ("delete", 1, "b", 2)
    ]


def test_a_batch_is_of_one_version_and_merges_have_none(tmp_path: Path) -> None:
    made = Changing(tmp_path, row_ids=False)
    for round_ in range(4):
        made.put([(one, round_) for one in range(3)])
    made.world.clock.sleep(DAY_S)
    assert made.compact().to_json()
    table = made.open()
    batches = list(table.changes(2))
    assert [batch[VERSION].unique().to_pylist() for batch in batches] == [[3], [4], [5]]
    assert table.log.state.version > 5
    assert list(table.changes(5)) == []


def test_what_is_asked_for_is_a_version_that_was() -> None:
    table = by_key()
    put(table, 1)
    assert told(table, 2) == []
    assert told(table, 0, until=1) == []
    with pytest.raises(bs.NotFound, match="no version 3, expected one up to 2"):
        table.changes(3)
    with pytest.raises(bs.NotFound, match="no version 9"):
        table.changes(1, 9)
    for wrong in (-1, True, "2", 1.5):
        with pytest.raises(bs.Invalid, match="expected the number of a version, or 0"):
            table.changes(wrong)  # type: ignore[arg-type]
    with pytest.raises(bs.Invalid, match="after version 2 until 1"):
        table.changes(2, 1)


def test_after_0_begins_with_the_table_that_was_created_where_another_was_dropped(
    tmp_path: Path,
) -> None:
    url = f"{tmp_path}/t?durable=false"
    first = bs.create(url, schema=PLAIN)
    first.append(pa.table({"n": [1, 2]}))
    bs.drop(url)
    table = bs.create(url, schema=pa.schema([("n", pa.int64()), ("s", pa.string())]))
    assert list(table.changes(0)) == []
    table.append(pa.table({"n": [3], "s": ["a"]}))
    created = table.log.state.created
    assert created == 4
    assert told(table, 0) == told(bs.open(url), created) == [(5, "insert", 3)]
    assert told(table, 0, until=created) == told(table, 0, until=0) == []
    assert next(table.follow(after=0)).to_table()["n"].to_pylist() == [3]
    with pytest.raises(bs.VersionExpired, match=r"version 2 of .* is of a table that was dropped"):
        table.changes(0, 2)


def test_after_0_has_expired_once_the_creation_of_the_table_has_where_another_was_dropped() -> None:
    table = by_key()
    put(table, 1)
    table.log.commit(Drop(commit=table.world.ids.ulid()))
    log = index_log.create(table.bucket, table.world, table.definition)
    created = Table(table.bucket, table.world, log)
    put(created, 2)
    assert told(created, 0) == [(5, "insert", 2)]
    assert forget(created, clean=False) >= 4
    with pytest.raises(bs.VersionExpired, match="what version 4 changed"):
        created.changes(0)


def test_a_dropped_table_has_no_changes_and_they_go_on_once_it_was_brought_back() -> None:
    table = by_key()
    put(table, 1)
    following = again(table).follow(0)
    assert next(following).until == 2
    other = again(table)
    drop_table(table.log, table.world)
    with pytest.raises(bs.TableDropped, match="by version 3"):
        next(following)
    for after in (0, 2, 3):
        with pytest.raises(bs.TableDropped, match="by version 3"):
            table.changes(after)
    undrop_table(table.log, table.world)
    put(other, 2)
    for handle in (table, again(table)):
        handle.poll()
        assert told(handle, 0) == [(2, "insert", 1), (5, "insert", 2)]
        for after in (2, 3, 4):
            assert told(handle, after) == [(5, "insert", 2)]
        assert told(handle, 2, until=3) == []
    assert next(table.follow(2)).until == 5


def test_a_net_difference_may_end_with_a_version_in_which_the_table_was_dropped() -> None:
    table = by_key()
    put(table, 1)
    table.tag("start", version=2)
    put(table, 2)
    drop_table(table.log, table.world)
    table.world.clock.sleep(31 * DAY_S)
    undrop_table(table.log, table.world)
    held = claim(table.log, table.world, COMPACTOR)
    assert collect(table.log, table.world, held=held).boundary == 4
    put(table, 3)
    assert told(table, 2) == [(5, "insert", 2), (8, "insert", 3)]


def test_until_ends_it_and_another_handle_finds_newer_versions() -> None:
    table = by_key()
    other = again(table)
    put(table, 1)
    put(table, 2)
    assert told(other, 0, until=2) == [(2, "insert", 1)]
    found = other.changes(0)
    put(table, 3)
    assert found.until == 3
    assert found.to_table()["id"].to_pylist() == [1, 2]
    assert found.to_table()["id"].to_pylist() == [1, 2], "each look reads them again"


@pytest.mark.parametrize("make", [by_key, plain])
def test_below_the_boundary_nothing_is_told_and_the_oldest_version_is_named(make: Any) -> None:
    table = make()
    for one in range(4):
        put(table, one) if make is by_key else table.append(pa.table({"n": [one]}))
    boundary = forget(table)
    assert boundary == 4
    for after in (0, 1, boundary):
        with pytest.raises(bs.VersionExpired, match=f"the oldest version left is {boundary + 1}"):
            table.changes(after)
    assert told(table, boundary + 1) == []


@pytest.mark.parametrize("make", [by_key, plain])
def test_from_a_tag_below_the_boundary_there_is_one_net_difference(make: Any) -> None:
    table = make()

    def add(*ns: int) -> None:
        put(table, *ns) if make is by_key else table.append(pa.table({"n": list(ns)}))

    add(1, 2, 3)
    table.tag("start", version=2)
    add(4)
    table.delete("n = 4")
    table.delete("n = 2")
    add(5)
    boundary = forget(table)
    add(6)
    found = table.changes(2).to_table().to_pylist()
    net = [row for row in found if row["_reason"] is not None]
    assert {row["_reason"] for row in net} == {"net difference since version 2"}
    assert {row[VERSION] for row in net} == {boundary + 1}
    assert sorted((row["_change"], row["n"]) for row in net) == [("delete", 2), ("insert", 5)]
    assert [(row["_change"], row["n"]) for row in found if row not in net] == [("insert", 6)]


def test_a_net_difference_has_updates_and_former_rows() -> None:
    table = by_key()
    put(table, 1, 2)
    table.tag("start", version=2)
    put(table, 1, name="b")
    put(table, 1, name="c")
    table.delete_rows([2])
    put(table, 2, name="again")
    boundary = forget(table)
    found = table.changes(2, before_images=True).to_table().to_pylist()
    assert sorted((row["_change"], row["id"], row["name"]) for row in found) == [
        ("update", 1, "c"),
        ("update", 2, "again"),
        ("update_before", 1, "a"),
        ("update_before", 2, "a"),
    ]
    assert table.changes(2, 2).to_table().num_rows == 0
    with pytest.raises(bs.VersionExpired):
        table.changes(2, boundary)


def test_a_version_that_was_collected_while_it_is_read_has_expired() -> None:
    table = by_key()
    put(table, 1)
    put(table, 2)
    table.delete_rows([1])
    found = table.changes(2)
    ulid = table.log.state.blocks.ulids()[0]
    forget(table, clean=False)
    for info in list(table.bucket.list(ulid)):
        table.bucket.delete([info.key])
    with pytest.raises(bs.VersionExpired, match="was collected"):
        found.to_table()


def test_a_missing_object_is_an_error_and_never_fewer_rows() -> None:
    table = by_key()
    put(table, 1)
    for info in list(table.bucket.list(table.log.state.blocks.ulids()[0])):
        table.bucket.delete([info.key])
    with pytest.raises(bs.ObjectMissing):
        table.changes(0).to_table()


def test_rows_that_retention_removes_say_so() -> None:
    table = plain()
    table.append(pa.table({"n": [1, 2]}))
    ulid = table.log.state.blocks.ulids()[0]
    table.append(pa.table({"n": [3]}))
    expire(table.log, table.world, [ulid], "retention")
    found = table.changes(3).to_table().to_pylist()
    assert [(row["_change"], row["_reason"], row["n"]) for row in found] == [
        ("delete", "retention", 1),
        ("delete", "retention", 2),
    ]


def test_a_rewritten_block_has_only_the_rows_that_went() -> None:
    table = plain()
    table.append(pa.table({"n": [1, 1, 2, 3]}))
    table.delete("n = 2")
    table.overwrite(pa.table({"n": [1, 4]}), where="n in (1, 4)")
    assert told(table, 2) == [(3, "delete", 2), (4, "delete", 1), (4, "insert", 4)]


def test_older_rows_are_read_under_the_newest_definition() -> None:
    table = by_key()
    put(table, 1)
    table.alter(rename={"name": "title"}, add=[pa.field("more", pa.string())])
    table.alter(drop=["n"])
    table.delete_rows([1])
    found = table.changes(0).to_table()
    assert found.schema.names[4:] == ["id", "title", "more"]
    rows = [(row["_change"], row["title"], row["more"]) for row in found.to_pylist()]
    assert rows == [("insert", "a", None), ("delete", "a", None)]


def test_a_feed_reaches_back_before_a_key_got_another_name() -> None:
    table = by_key()
    put(table, 1, 2)
    table.tag("kept")
    table.alter(rename={"id": "key"})
    rows = rows_of({"id": 2, "name": "b", "n": 2}).rename_columns(["key", "name", "n"])
    table.upsert(rows)
    table.delete_rows([1])
    expected = [(2, "insert", 1), (2, "insert", 2), (5, "update", 2), (6, "delete", 1)]
    assert told(table, 1) == expected
    assert told(table, 3) == told(table, 2) == expected[2:]
    forget(table)
    now = table.poll()
    assert {(change, one) for _, change, one in told(table, 2, until=now)} == {
        ("update", 2),
        ("delete", 1),
    }


def test_labels_are_columns_and_rows_of_two_streams_are_never_one() -> None:
    table = by_key()
    table.upsert(rows_of({"id": 1, "name": "a", "n": 1}), labels={"site": "x"})
    table.upsert(rows_of({"id": 1, "name": "b", "n": 1}), labels={"site": "y"})
    table.upsert(rows_of({"id": 1, "name": "c", "n": 1}), labels={"site": "x"})
    found = table.changes(0).to_table().to_pylist()
    assert [(row["_change"], row["name"], row["site"]) for row in found] == [
        ("insert", "a", "x"),
        ("insert", "b", "y"),
        ("update", "c", "x"),
    ]


def test_a_deletion_of_what_is_not_there_is_no_change() -> None:
    table = by_key()
    put(table, 1)
    table.delete_rows([1, 2])
    table.delete_rows([1])
    assert told(table, 2) == [(3, "delete", 1)]


def test_a_column_with_a_name_of_the_feed_is_refused_by_name() -> None:
    schema = pa.schema([*BY_KEY, ("_reason", pa.string())])
    table = by_key(schema=schema)
    with pytest.raises(bs.Invalid, match=r"column '_reason'.*rename it with alter"):
        table.changes(0)
    table.alter(rename={"_reason": "why"})
    assert table.changes(0).schema.names[-1] == "why"


def test_a_table_without_an_index_has_no_versions_to_follow(tmp_path: Path) -> None:
    table = bs.create(str(tmp_path / "t"), schema=PLAIN, index=False)
    with pytest.raises(bs.Invalid, match="has no index"):
        table.changes(0)


def test_a_follower_sees_each_version_once_while_the_table_is_merged_and_cleaned(
    tmp_path: Path,
) -> None:
    made = Changing(tmp_path, row_ids=True)
    table = made.open()
    held = claim(table.log, made.world, COMPACTOR)
    cleaner = Cleaner(made.open(), held)
    seen: dict[int, dict[str, Any]] = {}
    versions: list[int] = []
    following = made.open().follow(0, poll_s=60)
    for round_ in range(7):
        made.insert([round_])
        made.set({round_ // 2: 100 + round_})
        made.delete([round_ - 3] if round_ > 3 else [])
        made.world.clock.sleep(DAY_S)
        made.compact()
        cleaner.run()
        collect(table.log, made.world, held=held)
        found = next(following)
        for batch in found:
            for row in batch.to_pylist():
                versions.append(row[VERSION])
                if row["_change"] == "delete":
                    seen.pop(row["_row_id"])
                else:
                    assert (row["_change"] == "insert") == (row["_row_id"] not in seen)
                    seen[row["_row_id"]] = {name: row[name] for name in ("name", "n")}
        assert seen == made.oracle.current()
    assert versions == sorted(versions)
    assert table.log.boundary.read() > 0


def test_a_follower_that_waits_notices_that_the_table_was_made_again() -> None:
    table = by_key()
    for one in range(5):
        put(table, one)
    following = again(table).follow(0, poll_s=7)
    assert next(following).until == 6
    definition = table.definition
    table.bucket.delete([one.key for one in table.bucket.list("")])
    index_log.create(table.bucket, table.world, definition)
    put(again(table), 9)
    began = table.world.clock.monotonic_s()
    with pytest.raises(bs.HistoryReplaced):
        next(following)
    assert 60 <= table.world.clock.monotonic_s() - began < 70


def test_follow_waits_for_newer_versions() -> None:
    table = by_key()
    put(table, 1)
    following = table.follow(0, poll_s=7)
    first = next(following)
    assert (first.after, first.until) == (0, 2)
    other, clock = again(table), table.world.clock
    began, sleep = clock.monotonic_s(), clock.sleep

    def wake(seconds: float) -> None:
        sleep(seconds)
        if clock.monotonic_s() - began > 20:
            put(other, 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "sleep", wake)
        second = next(following)
    assert (second.after, second.until) == (2, 3)
    assert clock.monotonic_s() - began == 21
    assert by_version(table, 2) == {3: {("insert", "[('id', 2), ('n', 2), ('name', 'a')]"): 1}}
