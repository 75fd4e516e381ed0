"""The command line on tables without an index: what works, and what says in one sentence why it
does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.cli.main import run
from blockstore.clock import SystemClock
from blockstore.lifecycle import second_look
from blockstore.names import meta_key
from blockstore.world import World
from tests.blockstore.cli.conftest import Command
from tests.support.aged import believe_mtime

LONG_AGO_S = 1_700_000_000
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


@pytest.fixture(autouse=True)
def files_of_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    believe_mtime(monkeypatch)


@pytest.fixture
def plain(lake: str) -> str:
    """Three blocks of two rows, written long ago."""
    url = f"{lake}/plain"
    table = bs.create(url, schema=SCHEMA, sort_by=["n"], index=False, world=World.manual())
    for number in range(3):
        table.append(pa.table({"k": ["a", "b"], "n": [number, number + 1]}, schema=SCHEMA))
        table.world.clock.sleep(1)
    return url


def test_a_table_is_created_written_and_looked_at(
    blockstore: Command, lake: str, tmp_path: Path
) -> None:
    url = f"{lake}/fresh"
    assert "2 columns" in blockstore("create", url, "--schema", "k:string,n:int", "--no-index").out
    rows = tmp_path / "rows.csv"
    rows.write_text("k,n\na,1\nb,2\n")
    assert "by its age" in blockstore("write", url, str(rows)).out
    assert blockstore("ls", url, "--json").json == []
    states = [block["state"] for block in blockstore("inspect", url, "-o", "json").json]
    assert states == ["fresh", "fresh"]
    assert blockstore("query", url, "select count(*) as c from fresh", "-o", "json").json == [
        {"c": 0}
    ]


def test_create_says_that_delays_and_labels_stand_nowhere(blockstore: Command, lake: str) -> None:
    for option in (("--property", "sync_delay=1m"), ("--label", "cluster=eu")):
        done = blockstore("create", f"{lake}/t", "--schema", "n:int", "--no-index", *option, code=2)
        assert "--no-index cannot be combined with --property or --label" in done.err


def test_json_of_create_has_no_version(blockstore: Command, lake: str) -> None:
    found = blockstore("create", f"{lake}/t", "--schema", "n:int", "--no-index", "--json").json
    assert found["version"] is None


def test_aged_blocks_are_listed_shown_and_queried(
    blockstore: Command, plain: str, lake: str
) -> None:
    blocks = blockstore("ls", plain, "--json").json
    assert [(block["rows"], block["version"], block["state"]) for block in blocks] == [
        (2, None, "ready")
    ] * 3
    [table] = blockstore("ls", lake, "--json").json
    assert (table["name"], table["blocks"], table["rows"], table["version"]) == (
        "plain",
        3,
        6,
        None,
    )
    assert table["changed"].startswith("2023-")
    shown = blockstore("show", plain, blocks[0]["ulid"]).out
    assert "ready: complete, and older than sync_delay" in shown
    assert "the table has no index" in blockstore("inspect", plain).out
    assert (
        blockstore("inspect", plain, "--selector", "state=ready", "--json").json
        == blockstore("inspect", plain, "--json").json
    )
    total = blockstore(
        "query", plain, "select sum(n) as s, count(*) as c from plain", "-o", "json"
    ).json
    assert total == [{"s": 9, "c": 6}]


def test_it_is_compacted(blockstore: Command, plain: str, tmp_path: Path) -> None:
    config = tmp_path / "compactor.toml"
    config.write_text("[compactor]\ntier_blocks = 2\n")
    [job] = blockstore("compact", plain, "--plan", "--json", "--config", str(config)).json
    assert len(job["inputs"]) == 3
    report = blockstore("compact", plain, "--once", "--json", "--config", str(config)).json
    assert (report["version"], [job["outcome"] for job in report["jobs"]]) == (None, ["uploaded"])
    again = blockstore("compact", plain, "--once", "--config", str(config))
    assert again.out == "nothing was merged\n"
    assert blockstore("query", plain, "select count(*) as c from plain", "-o", "json").json == [
        {"c": 6}
    ]


def test_a_malformed_block_is_told_and_fails_a_query(
    blockstore: Command, plain: str, lake: str
) -> None:
    ulid = blockstore("ls", plain, "--json").json[1]["ulid"]
    (Path(plain) / meta_key(ulid)).write_bytes(b"{")
    os.utime(Path(plain) / meta_key(ulid), (LONG_AGO_S, LONG_AGO_S))
    assert f"left out: {ulid}" in blockstore("ls", plain, code=1).err
    assert ulid in blockstore("ls", lake, "--json", code=1).json[0]["problem"]
    assert ulid in blockstore("query", plain, "select * from plain", code=1).err


@pytest.mark.parametrize(
    "words",
    [
        ("history",),
        ("diff", "1", "2"),
        ("write", "rows.csv", "--app", "load", "--batch", "1"),
        ("query", "select 1 from plain", "--version", "2"),
    ],
    ids=["history", "diff", "write with a job", "query of a version"],
)
def test_what_needs_an_index_says_so_in_a_sentence(
    blockstore: Command, plain: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("k,n\na,1\n")
    verb, *rest = (str(tmp_path / word) if word.endswith(".csv") else word for word in words)
    before = sorted(Path(plain).rglob("*"))
    assert "no index" in blockstore(verb, plain, *rest, code=1).err
    assert sorted(Path(plain).rglob("*")) == before


def test_alter_says_where_the_change_belongs(blockstore: Command, plain: str) -> None:
    assert (
        "next block carries the change" in blockstore("alter", plain, "--add", "x:int", code=1).err
    )


def test_a_table_that_lost_its_index_is_not_looked_at_as_a_smaller_one(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    rows = tmp_path / "day1.csv"
    blockstore("write", flights, str(rows), "--app", "load", "--batch", "1")
    for folder in ("index", "gc"):
        shutil.rmtree(Path(flights) / folder)
    for words in (("ls",), ("inspect",), ("history",)):
        assert "the index was lost" in blockstore(*words, flights, code=1).err


def test_a_block_is_hidden_by_one_call_that_says_what_it_waits_for(
    blockstore: Command, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ulid = blockstore("ls", plain, "--json").json[0]["ulid"]
    count = ["query", plain, "select count(*) as c from plain", "-o", "json"]
    hide = ["mark", plain, ulid, "--deletion"]
    now = blockstore(*hide, "--now", "--yes", code=1).err
    assert "could show its rows again" in now
    delays = ("--property", "sync_delay=2s")
    monkeypatch.setattr(second_look, "LASTS_S", 0.1)
    monkeypatch.setattr(second_look, "_ASKED_S", 0.1)
    told = blockstore(*hide, *delays)
    assert "readers no longer see it" in told.out
    first, second = told.err.splitlines()
    assert first.startswith(f"note: {ulid}: it is kept out of merges")
    assert second.startswith(f"note: {ulid}: it is hidden")
    assert all(": waiting 2s, until 20" in line for line in (first, second))
    assert blockstore(*count).json == [{"c": 4}]


def test_who_interrupts_the_hiding_is_told_what_lies_there(
    blockstore: Command,
    plain: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ulid = blockstore("ls", plain, "--json").json[0]["ulid"]
    hide = ["mark", plain, ulid, "--deletion"]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SystemClock, "sleep", interrupt)
        assert run(hide) == 130
    told = capsys.readouterr().err
    assert (
        f"interrupted: block {ulid} is kept out of merges, and is not hidden yet; run the command "
        "again" in told
    )
    assert "no-compact" in blockstore("show", plain, ulid).out
