"""``blockstore cleanup`` and ``retention``: what people read, what machines get, and that a dry run
changes nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.cli.main import run
from blockstore.table import Table, create, open_any
from tests.support.aged import believe_mtime

DAY_S = 86_400
SCHEMA = pa.schema([("time", pa.timestamp("ms", tz="UTC")), ("n", pa.int64())])


def table_at(url: str, *, index: bool, **properties: str) -> Table:
    return create(
        url, schema=SCHEMA, time_column="time", sort_by=["time"], properties=properties, index=index
    )


def rows(start_ms: int) -> pa.Table:
    return pa.table({"time": pa.array([start_ms], SCHEMA.field("time").type), "n": [1]})


@pytest.fixture(autouse=True)
def files_of_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    believe_mtime(monkeypatch)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{tmp_path / 'readings'}?durable=false"


def age(url: str, days: float) -> None:
    """Make every file of the table so many days older."""
    root = Path(url.partition("?")[0])
    for path in root.rglob("*"):
        if path.is_file():
            found = path.stat()
            os.utime(path, (found.st_atime, found.st_mtime - days * DAY_S))


def aborted(url: str) -> Path:
    """An upload of three days ago that never ended."""
    folder = Path(url.partition("?")[0]) / "01HF7YAT00F3JQ64ERMF1CWVT4"
    (folder / "chunks").mkdir(parents=True)
    (folder / "chunks" / "000001.parquet").write_bytes(b"half")
    return folder


def out(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(list(words)) == code
    return capsys.readouterr().out


@pytest.mark.parametrize("index", [True, False])
def test_an_aborted_upload_is_reported_then_marked_then_removed(
    url: str, index: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    table_at(url, index=index).append(rows(1_700_000_000_000))
    folder = aborted(url)
    age(url, 3)
    text = out(capsys, "cleanup", url, "--dry-run")
    assert f"would be marked: {folder.name} (partial): no meta.json" in text
    assert not (folder / "deletion-mark.json").exists()
    did = out(capsys, "cleanup", url)
    assert f"marked: {folder.name} (partial)" in did
    assert "1 block marked, 0 blocks removed" in did
    assert (folder / "deletion-mark.json").exists()
    age(url, 3)
    planned = json.loads(out(capsys, "cleanup", url, "--dry-run", "--json"))
    removed = json.loads(out(capsys, "cleanup", url, "--json"))
    assert planned["removed"] == removed["removed"]
    assert [one["ulid"] for one in removed["removed"]] == [folder.name]
    assert (removed["objects"], planned["dry_run"], removed["dry_run"]) == (2, True, False)
    assert not folder.exists()
    assert out(capsys, "cleanup", url, "--dry-run") == "nothing to clean\n"


def test_a_wreck_is_named_and_nothing_else_is_done(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table_at(url, index=True).append(rows(1_700_000_000_000))
    folder = aborted(url)
    (folder / "meta.json").write_text("{ not json")
    age(url, 3)
    text = out(capsys, "cleanup", url)
    assert f"quarantined: {folder.name}: " in text
    assert text.endswith("nothing to clean\n")


def test_retention_reports_and_expires_what_is_old_enough(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_at(url, index=True, retention="90d")
    old = table.append(rows(1_500_000_000_000)).ulid
    table.append(rows(4_000_000_000_000))
    text = out(capsys, "retention", url, "--dry-run")
    assert text.startswith(f"would leave: {old}\n1 block would leave: 1 row, ")
    assert len(open_any(url).snapshot().blocks) == 2
    did = json.loads(out(capsys, "retention", url, "--json"))
    assert (did["blocks"], did["rows"], did["retention"]) == ([old], 1, "2160h")
    assert len(open_any(url).snapshot().blocks) == 1
    assert "nothing is older than" in out(capsys, "retention", url)


def test_a_table_without_a_retention_says_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    table_at(url, index=True)
    assert out(capsys, "retention", url) == "the table keeps everything: it has no retention\n"


def test_without_an_index_the_delays_and_the_retention_are_said(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    block = table_at(url, index=False).append(rows(1_500_000_000_000)).ulid
    age(url, 3)
    assert "it has no retention" in out(capsys, "retention", url)
    delays = ["--property", "retention=90d", "--property", "sync_delay=0s"]
    assert f"left: {block}" in out(capsys, "retention", url, *delays)
    assert (Path(url.partition("?")[0]) / str(block) / "deletion-mark.json").exists()
    assert out(capsys, "cleanup", url, "--dry-run") == "nothing to clean\n"
    age(url, 3)
    assert f"would be removed: {block} (retention)" in out(capsys, "cleanup", url, "--dry-run")


def test_a_property_where_there_is_an_index_is_one_sentence(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table_at(url, index=True)
    assert run(["cleanup", url, "--property", "sync_delay=1m"]) == 1
    assert "has an index" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["cleanup", "retention"])
def test_no_table_is_one_sentence(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, str(tmp_path / "nowhere")]) == 1
    assert "no table" in capsys.readouterr().err
