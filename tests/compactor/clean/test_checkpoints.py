"""Missing checkpoints: the next look writes the newest one, once, from what is there now."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import ReadOnly
from blockstore.compactor.clean.checkpoints import catch_up
from blockstore.errors import BlockstoreError, Invalid, NoSpace, Unavailable
from blockstore.index.checkpoint import encode_checkpoint
from blockstore.index.checkpoint_name import EVERY, name_of, read_hint
from blockstore.index.log import Log
from blockstore.names import CHECKPOINTS, HINT, checkpoint_key
from tests.compactor.scene import Scene
from tests.support.faulty import Call, FaultyBucket, Killed


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A table of 64 entries, whose committers wrote no checkpoint."""
    made = Scene(tmp_path_factory.mktemp("long"))
    grow(made, EVERY - 1)
    return made


@pytest.fixture
def table(long: Scene) -> Scene:
    return long.copy()


def grow(made: Scene, entries: int) -> None:
    """So many entries more, and no checkpoint with them."""
    refusing = FaultyBucket(made.bucket)

    def refuse(call: Call) -> None:
        if call.writes and call.key.startswith(CHECKPOINTS):
            raise Unavailable("not now")

    refusing.before.append(refuse)
    writer = Scene(made.work_dir, made.world, made.expected, refusing)  # type: ignore[arg-type]
    for number in range(entries):
        writer.append(f"w{number}", count=1)


def log(made: Scene, bucket: FaultyBucket | None = None) -> Log:
    return Log(bucket or made.bucket, made.world)


def checkpoints(made: Scene) -> list[str]:
    return [info.key for info in made.bucket.list(CHECKPOINTS)]


def test_a_checkpoint_of_the_newest_version_is_written_where_none_is_near(table: Scene) -> None:
    assert checkpoints(table) == []
    assert catch_up(log(table)) == EVERY
    assert checkpoints(table) == [checkpoint_key(EVERY)]
    assert read_hint(table.bucket) == name_of(EVERY, table.bucket.get(checkpoint_key(EVERY)).data)
    assert table.found() == table.expected


def test_after_it_a_cold_read_costs_no_request_an_entry(table: Scene) -> None:
    metered = Metered(table.bucket)
    Log(metered, table.world).poll()
    assert metered.counts["get"] > EVERY
    catch_up(log(table))
    metered.reset()
    Log(metered, table.world).poll()
    assert metered.counts["get"] <= 6


def test_what_others_committed_since_the_last_look_is_in_it(table: Scene) -> None:
    kept = log(table)
    kept.poll()
    grow(table, 1)
    assert catch_up(kept) == EVERY + 1
    state = log(table).poll()
    assert table.bucket.get(checkpoint_key(EVERY + 1)).data == encode_checkpoint(state)


def test_the_next_is_due_once_64_entries_follow_the_last_and_not_before(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    grow(made, EVERY - 2)
    assert catch_up(log(made)) is None
    grow(made, 1)
    assert catch_up(log(made)) == EVERY
    grow(made, EVERY - 1)
    assert catch_up(log(made)) is None
    grow(made, 1)
    assert catch_up(log(made)) == 2 * EVERY
    assert checkpoints(made) == [checkpoint_key(EVERY), checkpoint_key(2 * EVERY)]


def test_those_of_a_large_table_are_further_apart_for_committers_and_compactor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = 8
    for name, value in (("EVERY", few), ("_EVERY_MOST", 8 * few), ("_BLOCKS_A_ENTRY", 1)):
        monkeypatch.setattr(f"blockstore.index.checkpoint_name.{name}", value)
    made = Scene(tmp_path)
    for number in range(5 * few):
        made.append(f"w{number}", count=1)
    # 15 blocks and fewer are a small table; from 16 on each 16th entry has one.
    assert checkpoints(made) == [checkpoint_key(place * few) for place in (1, 2, 4)]
    # Of 32 blocks each 32nd has one.
    grow(made, 3 * few - 2)
    assert catch_up(log(made)) is None
    grow(made, 1)
    assert catch_up(log(made)) == 8 * few


def test_where_nothing_is_missing_nothing_is_written(table: Scene) -> None:
    catch_up(log(table))
    watched = FaultyBucket(table.bucket)
    assert catch_up(log(table, watched)) is None
    assert watched.writes == []


def test_other_objects_beside_the_checkpoints_are_none(table: Scene) -> None:
    table.bucket.put(f"{CHECKPOINTS}notes.txt", b"mine")
    table.bucket.put(f"{checkpoint_key(EVERY)}.tmp", b"torn")
    assert catch_up(log(table)) == EVERY


def test_of_two_that_write_it_at_once_neither_fails_and_the_first_one_s_stays(table: Scene) -> None:
    faulty = FaultyBucket(table.bucket)

    def first(call: Call) -> None:
        if call.method == "put_if_absent":
            catch_up(log(table))

    faulty.before.append(first)
    catch_up(log(table, faulty))
    assert checkpoints(table) == [checkpoint_key(EVERY)]
    assert [call.method for call in faulty.writes] == ["put_if_absent"]
    assert table.found() == table.expected


@pytest.mark.parametrize("fault", ["kill_before", "kill_after"])
def test_a_process_that_dies_at_any_write_leaves_a_table_that_the_next_completes(
    table: Scene, fault: str
) -> None:
    whole = FaultyBucket(table.copy().bucket)
    catch_up(log(table, whole))
    assert len(whole.writes) == 2
    for call in whole.writes:
        made = table.copy()
        with pytest.raises(Killed):
            catch_up(log(made, FaultyBucket(made.bucket, **{fault: call.number})))  # type: ignore[arg-type]
        catch_up(log(made))
        assert checkpoints(made) == [checkpoint_key(EVERY)], call
        assert made.found() == made.expected


@pytest.mark.parametrize("hint", [b"", b"{ torn", b'{"format": 1, "checkpoint": 999}'])
def test_a_wrong_hint_neither_replaces_a_checkpoint_nor_hides_one(
    table: Scene, hint: bytes
) -> None:
    table.bucket.put(HINT, hint)
    assert catch_up(log(table)) == EVERY
    assert read_hint(table.bucket) == name_of(EVERY, table.bucket.get(checkpoint_key(EVERY)).data)


@pytest.mark.parametrize("error", [Unavailable("no answer"), NoSpace("full")])
def test_a_store_that_fails_is_reported_and_the_next_look_writes_it(
    table: Scene, error: BlockstoreError
) -> None:
    faulty, down = FaultyBucket(table.bucket), True

    def fail(call: Call) -> None:
        if down and call.key.startswith(CHECKPOINTS) and call.writes:
            raise error

    faulty.before.append(fail)
    kept = log(table, faulty)
    with pytest.raises(type(error)):
        catch_up(kept)
    assert checkpoints(table) == []
    down = False
    assert catch_up(kept) == EVERY


def test_a_listing_that_breaks_off_decides_nothing(table: Scene) -> None:
    kept = log(table, faulty := FaultyBucket(table.bucket))
    kept.poll()

    def fail(call: Call) -> None:
        if call.method == "list":
            raise Unavailable("it broke off")

    faulty.before.append(fail)
    with pytest.raises(Unavailable):
        catch_up(kept)
    assert faulty.writes == []


def test_into_a_place_whose_table_vanished_nothing_is_written(table: Scene) -> None:
    kept = log(table)
    kept.poll()
    table.bucket.delete([info.key for info in table.bucket.list()])
    with pytest.raises(BlockstoreError):
        catch_up(kept)
    assert list(table.bucket.list()) == []


def test_who_may_only_read_is_refused(table: Scene) -> None:
    with pytest.raises(Invalid, match="reading only"):
        catch_up(Log(ReadOnly(table.bucket), table.world))
