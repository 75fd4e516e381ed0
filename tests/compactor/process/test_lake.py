"""Lakes: which folders under a URL are tables, and the verbs over all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.bucket.metered import Metered
from blockstore.cli.main import run
from blockstore.compactor.process.lake import Lake
from blockstore.world import World

SCHEMA = pa.schema([("row", pa.int64())])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        table = bs.create(f"{tmp_path}/lake/{name}?durable=false", schema=SCHEMA, sort_by=["row"])
        for number in range(3):
            table.append(pa.table({"row": [number]}, schema=SCHEMA))
    (tmp_path / "lake" / "no-table").mkdir()
    (tmp_path / "lake" / "no-table" / "file").write_text("x")
    (tmp_path / "c.toml").write_text("[compactor]\ntier_blocks = 2\n[tables.b]\ntend = false\n")
    return tmp_path


def damage(folder: Path, name: str) -> None:
    newest = sorted((folder / "lake" / name / "index").glob("0*.json"))[-1]
    newest.write_text("{ not an entry")


def test_tables_are_the_folders_that_have_an_index_or_a_block(folder: Path) -> None:
    lake = Lake(open_bucket(f"{folder}/lake", World.real()))
    assert [place.name for place in lake.places()] == ["a", "b"]
    assert not lake.single
    single = Lake(open_bucket(f"{folder}/lake/a", World.real()))
    assert [(place.name, place.bucket.url) for place in single.places()] == [
        ("a", f"file://{folder}/lake/a")
    ]
    assert single.single


def test_a_known_table_costs_no_request_of_its_own(folder: Path) -> None:
    bucket = Metered(open_bucket(f"{folder}/lake", World.real()))
    lake = Lake(bucket)
    lake.places()
    first = sum(bucket.counts.values())
    bucket.reset()
    lake.places({"a", "b"})
    assert sum(bucket.counts.values()) < first
    assert bucket.counts["prefixes"] <= 3


def test_plan_and_once_work_on_every_table_of_a_lake(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = f"{folder}/lake?durable=false"
    config = folder / "all.toml"
    config.write_text("[compactor]\ntier_blocks = 2\n")
    words = ["--config", str(config)]
    assert run(["compact", lake, "--plan", "--json", *words]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert {name: len(jobs) for name, jobs in planned.items()} == {"a": 1, "b": 1}
    assert run(["compact", lake, "--plan", *words]) == 0
    assert "a:\n" in capsys.readouterr().out
    assert run(["compact", lake, "--once", "--json", *words]) == 0
    done = json.loads(capsys.readouterr().out)
    for name in ("a", "b"):
        (job,) = done[name]["jobs"]
        assert [one["ulid"] for one in job["inputs"]] == [
            one["ulid"] for one in planned[name][0]["inputs"]
        ]
    assert run(["compact", lake, "--once", *words]) == 0
    assert "b: nothing was merged" in capsys.readouterr().out


def test_a_table_that_is_left_alone_is_left_by_the_verbs_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--once", "--json", "--config", str(folder / "c.toml")]
    assert run(["compact", f"{folder}/lake?durable=false", *words]) == 0
    captured = capsys.readouterr()
    assert (json.loads(captured.out).keys(), captured.err) == ({"a"}, "")


@pytest.mark.parametrize("words", [["--plan"], ["--once"]])
def test_a_table_that_only_the_configuration_names_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    config = folder / "misspelt.toml"
    config.write_text("[tables.B]\ntend = false\n")
    assert run(["compact", f"{folder}/lake?durable=false", *words, "--config", str(config)]) == 0
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith('note: the configuration has [tables."B"], but there is no such table')


def test_a_table_that_fails_is_named_and_the_others_are_merged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder, "a")
    config = folder / "all.toml"
    config.write_text("[compactor]\ntier_blocks = 2\n")
    assert run(["compact", f"{folder}/lake?durable=false", "--once", "--config", str(config)]) == 1
    captured = capsys.readouterr()
    assert "b: 3 blocks merged into 1" in captured.out
    assert "error: a: index entry" in captured.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--plan", "--wait"], "exactly one"),
        (["--once", "--shard", "0/2"], "--shard needs --wait"),
        (["--wait", "--json"], "leave out --json"),
        (["--wait", "--shard", "2/2"], "does not exist"),
        (["--once", "--engine", "steam"], "expected one of"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], part: str
) -> None:
    assert run(["compact", f"{folder}/lake", *words]) != 0
    assert part in capsys.readouterr().err


def test_a_place_without_a_table_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compact", str(tmp_path), "--once"]) == 1
    assert "no table at" in capsys.readouterr().err
