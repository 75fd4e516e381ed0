"""The verb ``changes``: rows for a pipe, and after which version to continue."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from blockstore.cli.failure import Usage
from blockstore.cli.main import run
from blockstore.errors import HistoryReplaced, Unavailable
from blockstore.index import gc, idle
from blockstore.reader import change_verbs
from blockstore.table import Table, create
from tests.support.interrupts import hear

BINARY = Path(sys.executable).parent / "blockstore"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = create(f"{tmp_path}/t?durable=false", schema=SCHEMA, key="id")
    put(made, 1, "a")
    put(made, 1, "b")
    made.delete_rows([1])
    return made


def put(table: Table, one: int, name: str) -> None:
    table.upsert(pa.table({"id": [one], "name": [name]}, SCHEMA))


def rows(text: str) -> list[tuple[Any, ...]]:
    found = [json.loads(line) for line in text.splitlines()]
    return [(row["_version"], row["_change"], row["id"], row["name"]) for row in found]


def test_rows_are_lines_and_the_end_says_how_to_continue(
    table: Table, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["changes", table.url, "--after", "0"]) == 0
    out, err = capfd.readouterr()
    assert rows(out) == [(2, "insert", 1, "a"), (3, "update", 1, "b"), (4, "delete", 1, "b")]
    assert err == "note: continue with --after 4\n"
    assert run(["changes", table.url, "--after", "2", "--until", "3", "--before-images"]) == 0
    out, err = capfd.readouterr()
    assert rows(out) == [(3, "update_before", 1, "a"), (3, "update", 1, "b")]
    assert err == "note: continue with --after 3\n"


def test_csv_has_one_header_and_arrow_is_one_stream(
    table: Table, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["changes", table.url, "--after", "0", "--format", "csv"]) == 0
    found = pyarrow.csv.read_csv(io.BytesIO(capfdbinary.readouterr().out))
    assert found["_change"].to_pylist() == ["insert", "update", "delete"]
    assert run(["changes", table.url, "--after", "0", "--format", "arrow"]) == 0
    stream = pa.ipc.open_stream(capfdbinary.readouterr().out).read_all()
    assert stream["name"].to_pylist() == ["a", "b", "b"]


def test_what_cannot_be_is_one_sentence(table: Table, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["changes", table.url, "--after", "9"]) == 1
    assert "has no version 9" in capfd.readouterr().err
    assert run(["changes", table.url, "--after", "0", "--until", "2", "--follow"]) == 2
    assert "give one of them" in capfd.readouterr().err


def test_a_follower_waits_for_newer_versions_and_ends_when_interrupted(table: Table) -> None:
    words = ["changes", table.url, "--after", "3", "--follow", "--every", "50ms"]
    process = subprocess.Popen(
        [BINARY, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear,
    )
    assert process.stdout is not None
    assert rows(process.stdout.readline()) == [(4, "delete", 1, "b")]
    put(table, 2, "c")
    assert rows(process.stdout.readline()) == [(5, "insert", 2, "c")]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    # A version is complete when the process has found that no more rows of it follow.
    assert err in {f"note: continue with --after {version}\n" for version in (4, 5)}


def test_inside_a_net_difference_it_continues_after_the_version_it_began_with(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(table, 2, "c")
    table.tag("start", version=2)
    monkeypatch.setattr(gc, "wanted_boundary", lambda *_, **__: 5)
    gc.collect(table.log, table.world)
    put(table, 3, "d")
    rows = change_verbs._Rows(table.url, 2, None, None, before_images=False)
    found = [(batch["_version"][0].as_py(), rows.complete) for batch in rows]
    assert [version for version, _ in found] == [6, 6, 7]
    assert [complete for _, complete in found] == [2, 2, 6]
    assert rows.complete == 7


def test_a_column_that_is_replaced_by_another_of_its_name_ends_it(table: Table) -> None:
    batches = iter(change_verbs._Rows(table.url, 3, None, 0.001, before_images=False))
    next(batches)
    table.alter(rename={"name": "title"})
    table.alter(add=[pa.field("name", pa.string())], drop=["title"])
    with pytest.raises(Usage, match=r"changed after version 4: begin again with --after 4"):
        next(batches)


def test_a_follower_that_waits_notices_another_table_under_its_url(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "LOOK_S", 0.0)
    batches = iter(change_verbs._Rows(table.url, 3, None, 0.001, before_images=False))
    next(batches)
    (tmp_path / "t").rename(tmp_path / "old")
    put(create(table.url, schema=SCHEMA, key="id"), 1, "a")
    with pytest.raises(HistoryReplaced):
        next(batches)


def test_a_store_that_does_not_respond_is_asked_again_and_new_columns_end_it(
    table: Table, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = change_verbs._Rows(table.url, 3, None, 0.001, before_images=False)
    batches = iter(rows)
    assert next(batches)["_version"].to_pylist() == [4]
    put(table, 2, "c")
    polls: list[int] = []
    poll = Table.poll

    def fails_once(self: Table) -> int:
        polls.append(1)
        if len(polls) == 1:
            raise Unavailable("no answer")
        return poll(self)

    monkeypatch.setattr(Table, "poll", fails_once)
    assert next(batches)["id"].to_pylist() == [2]
    assert "trying again in about 0.001 s: no answer" in capfd.readouterr().err
    table.alter(add=[pa.field("more", pa.int64())])
    with pytest.raises(Usage, match="changed after version 5: begin again with --after 5"):
        next(batches)
