"""The command line as a whole: exit codes, sentences, what is loaded when."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from blockstore.cli import main, rooms
from blockstore.cli.main import run
from blockstore.cli.verbs import OTHER_NAMES, VERBS, load
from blockstore.table import Table
from tests.blockstore.cli import room
from tests.blockstore.cli.conftest import Command

BINARY = Path(sys.executable).parent / "blockstore"


def test_every_verb_is_shown_with_its_sentence_and_loads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--help"]) == 0
    overview = capsys.readouterr().out
    for verb, sentence in {**VERBS, **rooms.VERBS}.items():
        assert verb in overview
        assert sentence in " ".join(overview.split())
        documentation = (load(verb) if verb in VERBS else rooms.load(verb)).__doc__ or ""
        assert documentation.startswith(sentence.rstrip("."))
        assert run([verb, "--help"]) == 0
        assert "Usage: blockstore" in capsys.readouterr().out


@pytest.mark.parametrize("verb", sorted({*VERBS, *rooms.VERBS}))
def test_the_help_shows_no_default_that_is_none(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert re.findall(r"\[default: (?:\(\)|None|False|\"\"|)\]", shown) == []
    if verb == "simulate":
        assert "[default: 0]" in shown


def test_the_version_is_the_distributions(blockstore: Command) -> None:
    assert blockstore("--version").out.startswith("blockstore 0.")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lss"], "there is no verb 'lss': did you mean ls?"),
        (["xyz"], "there is no verb 'xyz': the verbs are"),
        (["frobnicate"], "there is no verb 'frobnicate': the verbs are"),
        (["histroy"], "did you mean history?"),
        (["append", "lake/t", "a.csv"], "there is no verb 'append': did you mean write?"),
        (["select"], "there is no verb 'select': did you mean query?"),
        (["ls"], "URL requires an argument; see blockstore ls --help"),
        (["ls", "a", "b"], "too many words: b; see blockstore ls --help"),
        (["ls", "a", "--nope"], "unknown option: --nope"),
        (["inspect", "a", "-o", "xls"], '"xls"'),
        (["diff", "a", "one", "2"], '"one"'),
        (["create", "a", "--schema", "a:int", "--no-index", "--key", "a"], "--no-index cannot be"),
    ],
)
def test_a_wrong_command_line_is_told_in_a_sentence_and_exits_2(
    blockstore: Command, words: list[str], says: str
) -> None:
    assert says in blockstore(*words, code=2).err


def test_other_names_of_verbs_lead_to_verbs() -> None:
    known = {*VERBS, *rooms.VERBS}
    assert set(OTHER_NAMES.values()) <= known
    assert known.isdisjoint(OTHER_NAMES)
    done = {
        name for name in vars(Table) if not name.startswith("_") and callable(getattr(Table, name))
    }
    looks = {"open_bucket", "writer", "poll"}
    assert done <= known | {*OTHER_NAMES} | looks, (
        "what Python calls otherwise is found on the command line"
    )


def test_no_word_shows_the_overview_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "create" in capsys.readouterr().out


def test_a_traceback_is_shown_only_with_debug(lake: str) -> None:
    with pytest.raises(Exception, match="no table at"):
        run(["history", lake, "--debug"])
    assert run(["history", lake]) == 1


def test_a_bug_of_ours_is_called_one(blockstore: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(words: list[str]) -> int:
        raise TypeError("x is\nno y")

    monkeypatch.setattr(main, "_run", broken)
    assert blockstore("ls", "x", code=1).err == (
        "error: internal error, TypeError: x is no y; run again with --debug and report the "
        "traceback\n"
    )


def test_a_full_disk_is_no_bug_of_ours(
    blockstore: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(words: list[str]) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(main, "_run", full)
    assert blockstore("ls", "x", code=1).err == (
        "error: a disk is full (no space left on device): make room, or set TMPDIR to a folder "
        "with more space\n"
    )


class TestRooms:
    """A room that is not there costs its own verbs only."""

    @pytest.fixture(autouse=True)
    def broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for verb, module in (
            ("gone", "noroom.verbs"),
            ("works", "tests.blockstore.cli.room"),
        ):
            monkeypatch.setitem(rooms.VERBS, verb, "Does something.")
            monkeypatch.setitem(rooms.MODULES, verb, module)

    def test_a_room_brings_a_verb(self, blockstore: Command) -> None:
        assert blockstore("works", "x").out == "works on x\n"

    def test_a_room_that_is_not_there_says_what_installs_it(self, blockstore: Command) -> None:
        assert "run pip install noroom" in blockstore("gone", code=1).err

    def test_the_overview_shows_a_room_that_is_not_there(self, blockstore: Command) -> None:
        assert "gone Does something." in " ".join(blockstore("--help").out.split())

    def test_a_missing_package_names_the_extra(
        self, blockstore: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def needs_duckdb(what: str, /) -> None:
            raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")

        monkeypatch.setattr(room, "works", needs_duckdb)
        assert blockstore("works", "x", code=1).err == (
            "error: the verb works needs duckdb, which is not installed: run pip install "
            "'blocklake[reader]'\n"
        )


def test_output_that_nobody_reads_is_no_error(flights: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"'{BINARY}' inspect '{flights}' -o json | head -c 1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "["
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr
