"""``build``, ``ship`` and ``replicate`` on a shell: what they say, their exit codes, and what they
refuse."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from blockstore.cli.following import follow
from blockstore.errors import Throttled
from blockstore.world import World
from tests.blockstore.cli.conftest import Command

SCHEMA = "sensor:string!, value:double"


@pytest.fixture
def readings(tmp_path: Path) -> str:
    file = tmp_path / "readings.csv"
    file.write_text("sensor,value\na,1.5\nb,2.5\n")
    return str(file)


@pytest.fixture
def out(tmp_path: Path) -> str:
    return f"{tmp_path}/out"


def rows(blockstore: Command, url: str) -> int:
    total: int = sum(block["rows"] for block in blockstore("inspect", url, "-o", "json").json)
    return total


def test_a_device_builds_offline_and_ships_later(
    blockstore: Command, lake: str, readings: str, out: str
) -> None:
    url = f"{lake}/readings"
    blockstore("create", url, "--schema", SCHEMA, "--sort-by", "sensor")
    first = blockstore("build", out, readings, "--like", url, "--label", "device=7")
    assert "2 rows" in first.out
    second = blockstore("build", out, readings, "--json").json
    assert second["rows"] == 2
    shipped = blockstore("ship", out, url)
    assert shipped.out.count("version") == 2
    assert rows(blockstore, url) == 4
    again = blockstore("ship", out, url, "--json").json
    assert again == {"shipped": [], "refused": [], "unfinished": [], "removed": []}
    blockstore("build", out, readings)
    done = blockstore("ship", out, url, "--json", "--remove-shipped").json
    assert [block["version"] for block in done["shipped"]] == [4]
    assert len(done["removed"]) == 3
    assert sorted(path.name for path in Path(out).iterdir()) == [
        "blockstore.shipper.json",
        "blockstore.table.json",
    ]
    assert rows(blockstore, url) == 6


def test_a_damaged_block_is_named_the_others_go_and_the_exit_code_is_1(
    blockstore: Command, lake: str, readings: str, out: str
) -> None:
    url = f"{lake}/readings"
    blockstore("create", url, "--schema", SCHEMA)
    ulid = blockstore("build", out, readings, "--like", url, "--json").json["ulid"]
    blockstore("build", out, readings)
    (chunk,) = Path(out, ulid, "chunks").iterdir()
    chunk.write_bytes(b"rot")
    done = blockstore("ship", out, url, code=1)
    assert f"refused {ulid}" in done.out
    assert "1 block" in done.err
    assert rows(blockstore, url) == 2


def test_blocks_go_to_a_table_without_an_index_too(
    blockstore: Command, lake: str, readings: str, out: str
) -> None:
    blockstore("create", f"{lake}/plain", "--schema", SCHEMA, "--sort-by", "sensor", "--no-index")
    blockstore("build", out, readings, "--schema", SCHEMA, "--sort-by", "sensor")
    done = blockstore("ship", out, f"{lake}/plain")
    assert "discover it by its age" in done.out
    assert blockstore("verify", f"{lake}/plain", "--deep").code == 0


def test_a_mistyped_url_gets_no_block_and_the_folder_keeps_its_own(
    blockstore: Command, lake: str, readings: str, out: str
) -> None:
    url = f"{lake}/readings"
    blockstore("create", url, "--schema", SCHEMA)
    blockstore("build", out, readings, "--like", url)
    told = blockstore("ship", out, f"{lake}/readngs", "--remove-shipped", code=1)
    assert told.err.count("no table") == 1
    assert "check the URL" in told.err
    assert told.err == blockstore("write", f"{lake}/readngs", readings, code=1).err
    assert not Path(lake, "readngs").exists()
    assert rows(blockstore, url) == 0
    assert "2 new rows" in blockstore("ship", out, url, "--remove-shipped").out
    assert rows(blockstore, url) == 2


def test_files_without_rows_build_nothing(blockstore: Command, out: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("sensor,value\n")
    assert "no rows" in blockstore("build", out, str(empty), "--schema", SCHEMA).out
    assert blockstore("build", out, str(empty), "--json").json["ulid"] is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["build", "OUT"], 2, "no file"),
        (["build", "OUT", "FILE"], 1, "is not known yet"),
        (["build", "OUT", "FILE", "--like", "LAKE/t", "--schema", SCHEMA], 2, "cannot be combined"),
        (["build", "OUT", "FILE", "--sort-by", "a"], 2, "need --schema"),
        (["build", "OUT", "FILE", "--like", "LAKE/nothing"], 1, "no table"),
        (["build", "s3://bucket/x", "FILE", "--schema", SCHEMA], 1, "not a local folder"),
        (["ship", "OUT/nothing", "LAKE/t"], 1, "there is no folder"),
        (["ship", "LAKE/t", "LAKE/u"], 1, "blockstore replicate"),
        (["ship", "LAKE", "LAKE"], 1, "the folder itself"),
        (["ship", "LAKE", "LAKE/t", "--watch", "soon"], 2, "duration"),
        (["ship", "LAKE", "LAKE/t", "--watch", "0s"], 2, "at least"),
        (["replicate", "LAKE/nothing", "LAKE/u"], 1, "no table"),
        (["replicate", "LAKE/t", "LAKE/t"], 1, "the source itself"),
        (["replicate", "LAKE/t", "LAKE/u", "--follow", "--interval", "x"], 2, "duration"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_changes_nothing(
    blockstore: Command, lake: str, out: str, readings: str, words: list[str], code: int, said: str
) -> None:
    blockstore("create", f"{lake}/t", "--schema", SCHEMA)
    filled = [
        word.replace("OUT", out).replace("LAKE", lake).replace("FILE", readings) for word in words
    ]
    assert said in blockstore(*filled, code=code).err
    assert not Path(out).exists()
    assert not Path(f"{lake}/u").exists()


def test_a_table_is_copied_and_followed(
    blockstore: Command, flights: str, lake: str, tmp_path: Path
) -> None:
    copy = f"{lake}/copy"
    first = blockstore("replicate", flights, copy)
    assert "3 blocks" in first.out
    assert "at version 4" in first.out
    (tmp_path / "more.csv").write_text(
        "origin,time_hour,delay,fare\nLGA,2013-01-04 01:00:00,1,1.50\n"
    )
    blockstore("write", flights, str(tmp_path / "more.csv"))
    second = blockstore("replicate", flights, copy, "--once", "--json").json
    assert (second["version"], second["entries"], second["blocks"]) == (5, 1, 1)
    question = "select origin, count(*) n from {} group by all order by all"
    answers = [
        blockstore("query", url, question.format(url.rpartition("/")[2]), "-o", "csv").out
        for url in (flights, copy)
    ]
    assert answers[0] == answers[1]
    assert (
        blockstore("history", copy, "--json").json == blockstore("history", flights, "--json").json
    )


def test_a_forked_copy_is_told(
    blockstore: Command, flights: str, lake: str, tmp_path: Path
) -> None:
    copy = f"{lake}/copy"
    blockstore("replicate", flights, copy)
    (tmp_path / "more.csv").write_text(
        "origin,time_hour,delay,fare\nLGA,2013-01-04 01:00:00,1,1.50\n"
    )
    blockstore("write", copy, str(tmp_path / "more.csv"))
    assert (
        "version 5 differs from the source's" in blockstore("replicate", flights, copy, code=1).err
    )


def test_following_goes_on_until_interrupted_and_asks_a_silent_store_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World.manual()
    answers: list[object] = [None, Throttled("slow down"), None, KeyboardInterrupt()]
    times = []

    def act() -> None:
        times.append(world.clock.monotonic_s())
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer

    assert follow(world, 10.0, act) == 0
    pauses = [after - before for before, after in pairwise(times)]
    assert all(9 <= pause <= 11 for pause in pauses)
    assert len(set(pauses)) == 3
    assert "slow down" in capsys.readouterr().err


def test_following_ends_with_what_asking_again_cannot_mend() -> None:
    def act() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        follow(World.manual(), 1.0, act)


def test_ship_watches(
    blockstore: Command, lake: str, readings: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{lake}/t"
    blockstore("create", url, "--schema", SCHEMA)
    blockstore("build", out, readings, "--like", url)
    passes = []

    def three(world: World, pause_s: float, act: object) -> int:
        passes.append(pause_s)
        for _ in range(3):
            act()  # type: ignore[operator]
        return 0

    monkeypatch.setattr("blockstore.cli.verbs.ship.follow", three)
    monkeypatch.setattr("blockstore.cli.verbs.replicate.follow", three)
    assert blockstore("ship", out, url, "--follow").out.count("shipped") == 1
    assert blockstore("ship", out, url, "--watch", "5m").out == ""
    assert blockstore("ship", out, url, "--watch", "5m", "--once").out != ""
    assert blockstore("replicate", url, f"{lake}/u", "--follow").out.count("copied") == 1
    assert passes == [30, 300, 60]
