"""The reader's verb is light, and its words mean the same with the parser and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore.reader.serve_verbs
import blockstore.reader.verbs
from blockstore.cli.failure import Usage
from blockstore.cli.main import run
from blockstore.reader import plain_query
from blockstore.table import create
from tests.support.interrupts import hear

BINARY = Path(sys.executable).parent / "blockstore"


def test_the_verbs_module_loads_no_engine() -> None:
    code = (
        "import sys, blockstore.reader.verbs; print([name for name in ('duckdb', 'pyarrow', "
        "'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"version": 1, "tag": "a"}, "--version and --tag were given"),
        ({"as_of": "2024-01-01", "tag": "a"}, "--as-of and --tag were given"),
    ],
)
def test_one_version_is_asked_for(options: dict[str, Any], says: str) -> None:
    with pytest.raises(Usage, match=says):
        blockstore.reader.verbs.query("lake/t", "select 1", **options)


@pytest.mark.parametrize("options", [{"version": 1}, {"tag": "a"}])
def test_a_version_is_of_one_table(options: dict[str, Any]) -> None:
    with pytest.raises(Usage, match="is for one table"):
        blockstore.reader.verbs.query("lake/t", "lake/u", "select 1", **options)


@pytest.mark.parametrize("form", ["table", "csv"])
def test_a_query_is_interrupted_inside_the_engine(tmp_path: Path, form: str) -> None:
    create(f"{tmp_path}/t", schema=pa.schema([("id", pa.int64())]))
    endless = (
        "select count(*) from range(1000000000) a, range(1000000) b where (a.range * b.range) % 7 "
        "= 3"
    )
    process = subprocess.Popen(
        [BINARY, "query", "t", endless, "-o", form],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear,
    )
    try:
        while not _computes(process.pid):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        reported = process.communicate(timeout=60)[1]
        assert time.monotonic() - began < 10
    finally:
        process.kill()
    assert reported == "interrupted: nothing was changed; run the command again\n"
    assert process.returncode == 130


def _computes(pid: int) -> bool:
    """Whether threads of the engine have used a second of the processor."""
    used = 0
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        if task.parent.name != str(pid):
            used += int(task.read_text().rpartition(")")[2].split()[11])
    return used > 100


@pytest.mark.parametrize("port", [65_536, -1])
def test_a_port_that_there_is_not_is_reported(
    capsys: pytest.CaptureFixture[str], port: int
) -> None:
    assert run(["serve", "lake/t", "--no-auth", f"--port={port}"]) == 1
    assert f"the port is {port}, expected 0 (a free one) to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", " "])
def test_a_token_is_somebodys(name: str) -> None:
    with pytest.raises(Usage, match="the token's name is empty"):
        blockstore.reader.serve_verbs.token(name)


PLAIN = (
    ["lake/t", "select 1"],
    ["lake/t", "lake/u", "select 1", "-o", "csv"],
    ["-o", "json", "lake/t", "select 1", "--to", "out.json"],
    ["lake/t", "--output", "arrow", "select -1", "--to", ""],
    ["lake/t", ""],
    ["lake/t"],
    [],
)
NOT_PLAIN = (
    ["--help"],
    ["lake/t", "select 1", "-o"],
    ["lake/t", "select 1", "-o", "xls"],
    ["lake/t", "select 1", "-o", "csv", "--output", "json"],
    ["lake/t", "select 1", "--output=csv"],
    ["lake/t", "select 1", "--to", "-"],
    ["lake/t", "--", "-- a comment"],
    ["lake/t", "select 1", "--tag", "a"],
)


@pytest.mark.parametrize("words", PLAIN, ids=str)
def test_words_that_need_no_parser_mean_what_the_parser_makes_of_them(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    def ask(words: Sequence[str], **given: Any) -> None:
        calls.append((list(words), {name: value for name, value in given.items() if value}))

    monkeypatch.setattr(plain_query, "ask", ask)
    monkeypatch.setattr(blockstore.reader.verbs, "ask", ask)
    at_once = plain_query.at_once(words)
    assert at_once is not None
    at_once()
    monkeypatch.setattr(plain_query, "at_once", lambda words: None)
    assert run(["query", *words]) == 0
    assert len(calls) == 2
    assert calls[0] == calls[1]


@pytest.mark.parametrize("words", NOT_PLAIN, ids=str)
def test_words_that_may_be_wrong_are_left_to_the_parser(words: list[str]) -> None:
    assert plain_query.at_once(words) is None


def test_sighup_makes_a_gateway_read_its_tokens_again(tmp_path: Path) -> None:
    create(f"{tmp_path}/lake/t", schema=pa.schema([("a", pa.int64())]))
    config = tmp_path / "reader.toml"
    text = '[query]\nisolated = false\n[http]\nlisten = "127.0.0.1:0"\n'
    config.write_text(f'{text}[tokens."a"]\nsha256 = "{"0" * 64}"\n')
    process = subprocess.Popen(
        [BINARY, "serve", f"{tmp_path}/lake", "--config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert process.stdout is not None
    try:
        read = iter(process.stdout.readline, "")
        assert any("serving" in line for line in read)
        process.send_signal(signal.SIGHUP)
        assert any("as SIGHUP asks" in line for line in read)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
