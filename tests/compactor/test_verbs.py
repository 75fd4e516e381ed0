"""``blockstore compact``: the plan changes nothing, once merges, machines get JSON, invalid
arguments are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.cli.main import run
from blockstore.compactor.merge.workdir import merge_folder
from blockstore.compactor.run import once
from blockstore.errors import BlockstoreError
from blockstore.table import Table, create
from blockstore.table import open as open_table
from tests.support.raw_text import raw_text, unchecked

DAY_MS = 86_400_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A table with six small blocks, four of one day and two of the next fortnight."""
    location = f"{tmp_path / 'flights'}?durable=false"
    schema = pa.schema([("origin", pa.string()), ("time", pa.timestamp("ms", tz="UTC"))])
    table = create(location, schema=schema, time_column="time", sort_by=["origin", "time"])
    for start in (0, 1, 2, 3, 15 * DAY_MS, 15 * DAY_MS + 1):
        times = pa.array([start, start + 1], pa.timestamp("ms", tz="UTC"))
        table.append(pa.table({"origin": ["EWR", "JFK"], "time": times}))
    return location


def out(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["compact", *words]) == 0
    return capsys.readouterr().out


def test_the_plan_prints_every_job_with_its_reason_and_changes_nothing(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    version = open_table(url).poll()
    text = out(capsys, url, "--plan")
    assert "overlap: 4 overlapping blocks in a closed window of 14d" in text
    assert "2 jobs, 6 blocks" in text
    assert open_table(url).poll() == version


def test_once_does_what_the_json_plan_says_and_a_second_run_does_nothing(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = json.loads(out(capsys, url, "--plan", "--json"))
    done = json.loads(out(capsys, url, "--once", "--json"))
    assert [job["inputs"] for job in done["jobs"]] == [job["inputs"] for job in planned]
    assert [job["expected_rows"] for job in planned] == [8, 4]
    assert {job["outcome"] for job in done["jobs"]} == {"committed"}
    assert len(open_table(url).snapshot().blocks) == 2
    assert open_table(url).snapshot().count() == 12
    assert out(capsys, url, "--plan") == "nothing to merge\n"
    assert "nothing was merged" in out(capsys, url, "--once")


def test_once_shows_the_outcome_of_each_job(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, url, "--once")
    assert "4 overlapping blocks in a closed window of 14d -> " in text
    assert text.endswith("6 blocks merged into 2; version 9\n")


def test_a_damaged_block_is_reported_and_fails_the_command(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    block = next(iter(open_table(url).snapshot().blocks))
    chunk = Path(url.partition("?")[0]) / block.ulid / block.meta.files[0].path
    chunk.unlink()
    assert run(["compact", url, "--once"]) == 1
    text = capsys.readouterr().out
    assert f"left out: block {block.ulid}" in text
    assert "5 blocks merged into 2" in text


def test_the_settings_of_a_file_are_used(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "compactor.toml"
    config.write_text('[compactor]\nranges = ["1ms"]\ntier_blocks = 3\n')
    assert out(capsys, url, "--plan", "--config", str(config)) != ""
    config.write_text("[compactor]\ntier_block = 3\n")
    assert run(["compact", url, "--plan", "--config", str(config)]) == 1
    assert "did you mean tier_blocks?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--plan", "--once"]])
def test_plan_or_once_must_be_said(
    url: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compact", url, *words]) == 2
    assert "--plan" in capsys.readouterr().err


def test_no_table_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compact", str(tmp_path / "nowhere"), "--once"]) == 1
    assert "no table" in capsys.readouterr().err


def test_once_clears_what_merges_that_died_left_in_the_work_directory(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    left = merge_folder(work, "01HF7YAT00WG6A6BB0P5EKAZZY")
    monkeypatch.setenv("BLOCKSTORE_COMPACTOR_WORK_DIR", str(work))
    for words, said in (((), True), (("--json",), False)):
        left.mkdir(parents=True)
        left.with_name(left.name + ".lock").touch()
        text = out(capsys, url, "--once", *words)
        assert text.startswith("removed 1 work folder of dead merges\n") is said
        assert list(work.iterdir()) == []


def test_once_refuses_a_work_directory_inside_a_table(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = url.partition("?")[0]
    monkeypatch.setenv("BLOCKSTORE_COMPACTOR_WORK_DIR", f"{table}/work")
    version = open_table(url).poll()
    assert run(["compact", url, "--once"]) == 1
    assert f"is inside the table {table}" in capsys.readouterr().err
    assert open_table(url).poll() == version


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Tables a, b and c, each of nine small blocks."""
    for name in ("a", "b", "c"):
        table = create(
            f"{tmp_path / name}?durable=false",
            schema=pa.schema([("k", pa.string())]),
            sort_by=["k"],
        )
        for number in range(9):
            table.append(pa.table({"k": [str(number)]}))
    return tmp_path


def blocks(lake: Path) -> dict[str, int]:
    return {name: len(open_table(str(lake / name)).snapshot().blocks) for name in ("a", "b", "c")}


@pytest.mark.parametrize("how", ["--once", "--plan"])
def test_a_bug_on_one_table_is_reported_and_stops_no_other(
    lake: Path, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "compact_once" if how == "--once" else "plan_table"
    act = getattr(once, name)

    def with_a_bug(table: Table, *args: object, **options: object) -> object:
        if table.url.endswith("/b"):
            raise ZeroDivisionError("one over nothing")
        return act(table, *args, **options)

    monkeypatch.setattr(once, name, with_a_bug)
    assert run(["compact", str(lake), how]) == 1
    captured = capsys.readouterr()
    says = (
        "b: internal error, ZeroDivisionError: one over nothing; run again with --debug and "
        "report the traceback"
    )
    assert captured.err == f"error: {says}\n"
    assert "a:" in captured.out
    assert "c:" in captured.out
    assert blocks(lake) == (
        {"a": 1, "b": 9, "c": 1} if how == "--once" else {"a": 9, "b": 9, "c": 9}
    )
    with pytest.raises(BlockstoreError) as raised:
        run(["compact", str(lake), how, "--debug"])
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_text_that_is_no_utf8_stops_no_merge(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with unchecked():
        open_table(str(lake / "a")).append(
            pa.table({"k": raw_text([b"caf\xe9", b"zz\xff", b"ok"])})
        )
    assert run(["compact", str(lake), "--once"]) == 0
    assert blocks(lake) == {"a": 1, "b": 1, "c": 1}
    rows = (
        open_table(str(lake / "a")).snapshot().scan().to_table()["k"].cast(pa.binary()).to_pylist()
    )
    assert rows == sorted(
        [*(str(number).encode() for number in range(9)), b"caf\xe9", b"ok", b"zz\xff"]
    )
