"""``blockstore sql``: from the command line, from standard input, and typed; the same as in
Python."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.cli.failure import Usage
from blockstore.cli.main import run
from blockstore.reader.statements import shell

SCRIPT = (
    "CREATE TABLE t (k BIGINT PRIMARY KEY, a INTEGER);"
    "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30);"
    "UPDATE t SET a = a + 1 WHERE k < 3; DELETE FROM t WHERE k = 3;"
    "MERGE INTO t USING (SELECT 9 AS k, 9 AS a) AS s ON t.k = s.k WHEN NOT MATCHED THEN INSERT"
)
LINES = """CREATE: version 1
INSERT: 3 inserted, version 2
UPDATE: 2 updated, version 3
DELETE: 1 deleted, version 4
MERGE: 1 inserted, version 5
"""


def rows(lake: Path) -> list[dict[str, object]]:
    return bs.sql(str(lake), "SELECT * FROM t ORDER BY k").to_arrow().to_pylist()


def test_a_script_does_the_same_in_python_from_words_and_from_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes = [tmp_path / name for name in ("python", "words", "input")]
    for lake in lakes:
        lake.mkdir()
    bs.sql(str(lakes[0]), SCRIPT)
    shell.run([str(lakes[1]), SCRIPT])
    assert capsys.readouterr().out == LINES
    monkeypatch.setattr(sys, "stdin", io.StringIO(SCRIPT))
    shell.run([str(lakes[2])])
    assert capsys.readouterr().out == LINES
    assert rows(lakes[0]) == rows(lakes[1]) == rows(lakes[2])
    assert [row["a"] for row in rows(lakes[0])] == [11, 21, 9]


def test_the_verb_prints_rows_and_results_and_fails_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = str(tmp_path)
    assert run(["sql", lake, SCRIPT]) == 0
    capsys.readouterr()
    assert run(["sql", lake, "UPDATE t SET a = $n WHERE k = 1 RETURNING a", "--set", "n=5"]) == 0
    assert "5" in capsys.readouterr().out
    once = ["sql", lake, "DELETE FROM t WHERE k = 9", "-o", "json", "--app", "x", "--batch", "1"]
    for already in (False, True):
        assert run(once) == 0
        assert json.loads(capsys.readouterr().out)["already"] is already
    assert run(["sql", lake, "UPDATE t SET nope = 1"]) == 1
    assert "line 1, column 14" in capsys.readouterr().err
    assert run(["sql", lake, f"{SCRIPT}; SELECT 1", "--app", "x", "--batch", "2"]) == 2


def test_words_without_a_place_are_refused() -> None:
    for words in ([], ["SELECT 1"]):
        with pytest.raises(Usage):
            shell.run(words)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Lines that a person types at a terminal."""
    lines: list[str] = []

    def read(_: str) -> str:
        if not lines:
            raise EOFError
        return lines.pop(0)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lines


def test_typed_statements_end_with_a_semicolon_and_one_that_fails_is_not_the_last(
    typed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed += [
        "CREATE TABLE t (k BIGINT,",
        "  a VARCHAR);",
        "INSERT INTO t VALUES (1, ';",
        "');",
        "SELECT nope FROM t;",
        "DELETE FROM t;",
        "exit",
        "DROP TABLE t;",
    ]
    (tmp_path / "lake").mkdir()
    shell.run([str(tmp_path / "lake")])
    shown = capsys.readouterr()
    assert (
        shown.out
        == "CREATE: version 1\nINSERT: 1 inserted, version 2\nDELETE: 1 deleted, version 3\n"
    )
    assert "nope" in shown.err
    assert typed == ["DROP TABLE t;"]


def test_a_typed_transaction_shows_its_rows_and_is_visible_after_commit(
    typed: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bs.sql(str(tmp_path), SCRIPT)
    seen: list[list[int]] = []
    read = sys.modules["builtins"].input

    def looking(prompt: str) -> str:
        if prompt == "sql*> ":
            seen.append([row["a"] for row in rows(tmp_path)])
        return read(prompt)

    monkeypatch.setattr("builtins.input", looking)
    typed += [
        "BEGIN; UPDATE t SET a = 0;",
        "INSERT INTO t VALUES (10, 1);",
        "SELECT count(*) AS n FROM t WHERE a = 0;",
        "COMMIT;",
        "BEGIN;",
        "DELETE FROM t;",
        "ROLLBACK;",
        "BEGIN; DELETE FROM t WHERE k = 1;",
        "DELETE FROM t WHERE nope;",
        "DELETE FROM t WHERE k = 2;",
        "COMMIT;",
        "COMMIT;",
        "BEGIN; DELETE FROM t;",
    ]
    shell.run([str(tmp_path)])
    shown = capsys.readouterr()
    assert seen[0] == seen[1] == [11, 21, 9], "nothing is visible before COMMIT"
    assert "UPDATE: 3 updated\n" in shown.out
    assert "COMMIT: 1 inserted, 3 updated, version 6\n" in shown.out
    assert "ROLLBACK: nothing was changed" in shown.out
    errors = [line for line in shown.err.splitlines() if line]
    assert ["nope" in errors[0], "write ROLLBACK" in errors[1]] == [True, True]
    assert "nothing of it was committed" in errors[2]
    assert "COMMIT ends nothing" in errors[3]
    assert "no COMMIT" in errors[4]
    assert [row["a"] for row in rows(tmp_path)] == [0, 0, 0, 1]


def test_a_script_with_a_transaction_prints_what_each_statement_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = f"{SCRIPT}; BEGIN; DELETE FROM t WHERE k = 1; UPDATE t SET a = 7; COMMIT"
    shell.run([str(tmp_path), sql])
    assert capsys.readouterr().out == (
        LINES + "DELETE: 1 deleted\nUPDATE: 2 updated\nCOMMIT: 2 updated, 1 deleted, version 6\n"
    )
    again = ["sql", str(tmp_path), "begin; delete from t; commit", "--app", "x", "--batch", "1"]
    assert run(again) == 0
    assert "version 7" in capsys.readouterr().out
    assert run(again) == 0
    assert "COMMIT: already done, version 7" in capsys.readouterr().out


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal: what runs in the background begins with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_waits_for_a_commit_and_not_for_a_computation() -> None:
    reached: list[str] = []

    def statement(commits: bool) -> None:
        with shell.commits_whole() as committing:
            if commits:
                committing.set()
            signal.raise_signal(signal.SIGINT)
            reached.append("committed" if commits else "computed")

    for commits in (False, True):
        with pytest.raises(KeyboardInterrupt):
            statement(commits)
    assert reached == ["committed"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
