"""What becomes of a verb whose output cannot be written, or that is interrupted."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.cli.streams import Output, OutputFailed
from blockstore.cli.verbs.write import write
from blockstore.operations.writer import Writer
from tests.blockstore.cli.conftest import Command
from tests.blockstore.cli.terminal import BINARY
from tests.support.interrupts import hear


@pytest.fixture
def table(blockstore: Command, tmp_path: Path) -> str:
    url = f"{tmp_path}/t"
    blockstore("create", url, "--schema", "id:int")
    (tmp_path / "rows.csv").write_text("id\n1\n2\n")
    return url


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    text = command.replace("blockstore", f"'{BINARY}'", 1)
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


READ_ONLY = "1<rows.csv"
"""A standard output that refuses every byte, as a full disk does."""


class TestAChangeThatIsDone:
    def test_is_done_also_if_its_answer_is_refused(
        self, blockstore: Command, table: str, tmp_path: Path
    ) -> None:
        done = shell(f"blockstore write t rows.csv {READ_ONLY}", tmp_path)
        assert done.stderr.startswith(
            "done, but the output could not be written (bad file descriptor): wrote 2 rows"
        )
        assert done.stderr.count("\n") == 1
        assert done.returncode == 0
        assert len(blockstore("history", table, "--json").json) == 2

    @pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "2<rows.csv 1<rows.csv"])
    def test_is_done_without_its_streams(
        self, blockstore: Command, table: str, tmp_path: Path, closed: str
    ) -> None:
        done = shell(f"blockstore write t rows.csv {closed}", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(blockstore("history", table, "--json").json) == 2

    def test_is_done_and_silent_if_nobody_reads(
        self, blockstore: Command, table: str, tmp_path: Path
    ) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [BINARY, "write", "t", "rows.csv"],
            stdout=writing,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            check=False,
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")
        assert len(blockstore("history", table, "--json").json) == 2


@pytest.mark.parametrize(
    "words",
    [
        "history t",
        "ls t --json",
        "inspect t -o csv",
        "--help",
        "delete t --where 'id = 1' --dry-run",
    ],
)
def test_a_look_that_cannot_be_written_fails_in_a_sentence(
    table: str, tmp_path: Path, words: str
) -> None:
    done = shell(f"blockstore {words} {READ_ONLY}", tmp_path)
    assert done.stderr == (
        "error: standard output cannot be written (bad file descriptor): make room, or write it "
        "elsewhere, and run the command "
        "again\n"
    )
    assert done.returncode == 1


def test_standard_input_that_is_closed_is_empty(table: str, tmp_path: Path) -> None:
    done = shell("blockstore write t - --format csv <&-", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard input is empty")


def test_a_refused_output_is_remembered_and_not_asked_again(tmp_path: Path) -> None:
    number = os.open(tmp_path / "x", os.O_RDONLY | os.O_CREAT)
    strict, lasting = Output(number, lasting=False), Output(number, lasting=True)
    for _ in range(2):
        with pytest.raises(OutputFailed, match="bad file descriptor"):
            strict.write(b"abc")
    assert lasting.write(b"abc") == lasting.write(b"def") == 3
    os.close(number)
    assert lasting.lost == b"abcdef"
    assert lasting.failure is not None


class TestInterrupted:
    def test_what_is_written_is_not_written_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C comes after the system has taken the bytes and before the buffer knows it."""
        number = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
        write_bytes = os.write

        def interrupted(number: int, data: bytes) -> int:
            write_bytes(number, data)
            raise KeyboardInterrupt

        out = io.BufferedWriter(Output(number, lasting=False))
        out.write(b"first\n")
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                out.flush()
        out.write(b"second\n")
        out.close()
        assert (tmp_path / "out").read_text() == "first\nsecond\n"

    def test_it_is_heard_where_python_drops_it(self) -> None:
        """In a ``__del__``, whose exceptions Python shows and forgets; and at once, although the
        main thread waits for something else by then."""
        code = """
import signal, sys, time
from blockstore.cli.failure import heed_interrupts

class Ends:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

heed_interrupts()
try:
    Ends()
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(130)
"""
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            preexec_fn=hear,
        )
        assert (done.returncode, done.stderr) == (130, "")

    def test_before_its_rows_are_complete_it_wrote_nothing(
        self, table: str, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "slow.csv")
        process = subprocess.Popen(
            [BINARY, "write", "t", "slow.csv"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear,
        )
        with open(tmp_path / "slow.csv", "w") as fifo:
            fifo.write("id\n")
            fifo.flush()
            process.send_signal(signal.SIGINT)
            told = process.communicate(timeout=60)[1]
        assert told.startswith("interrupted: ")
        assert told.count("\n") == 1
        assert process.returncode == 130

    def test_what_it_has_uploaded_by_then_is_told_with_its_block(self, tmp_path: Path) -> None:
        """More than a writer holds: its first file lies in the table, and the rest is still being
        read."""
        folder = tmp_path / "t"
        bs.create(
            str(folder),
            schema=pa.schema([("text", pa.large_string())]),
            properties={"partial_delay": "30h"},
        )
        with pq.ParquetWriter(
            tmp_path / "rows.parquet", pa.schema([("text", pa.large_string())])
        ) as file:
            for number in range(64):
                file.write_table(
                    pa.table({"text": pa.array([f"{number:0{1 << 20}}"] * 16, pa.large_string())})
                )
        process = subprocess.Popen(
            [BINARY, "write", "t", "rows.parquet"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear,
        )
        while not (there := list(folder.glob("*/chunks/*.parquet"))) and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[1]
        ulid = there[0].parts[-3]
        assert process.returncode == 130, told
        assert told.startswith(f"interrupted: nothing was written to file://{folder}; ")
        assert f"of it were uploaded as block {ulid}, which no reader sees" in told
        assert "when it is 30h old, and removes it 48h later" in told
        assert told.count("\n") == 1
        assert bs.open(str(folder)).snapshot().count() == 0

    @pytest.mark.parametrize(
        ("step", "says"),
        [
            ("write", "interrupted: nothing was written to file://"),
            ("_made_durable", "is in file://"),
        ],
    )
    def test_a_write_says_what_became_of_its_rows(
        self,
        table: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        step: str,
        says: str,
    ) -> None:
        from blockstore.cli.main import run

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Writer, step, interrupt)
        assert run(["write", table, str(tmp_path / "rows.csv")]) == 130
        told = capsys.readouterr().err
        assert says in told
        assert told.count("\n") == 1

    def test_a_write_that_was_too_late_to_stop_says_its_block(
        self, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finish = Writer.finish

        def late(writer: Writer) -> None:
            finish(writer)
            raise KeyboardInterrupt

        monkeypatch.setattr(Writer, "finish", late)
        with pytest.raises(KeyboardInterrupt, match="too late: wrote 2 rows"):
            write(table, str(tmp_path / "rows.csv"))


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    done = shell("mkdir gone; cd gone; rmdir ../gone; X ls .".replace("X", "blockstore"), tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: the current folder no longer exists: change to another one\n"


def test_what_a_lasting_verb_says_is_there_at_once(tmp_path: Path) -> None:
    """Into a file or a pipe as well: whoever starts a gateway reads its address there."""
    said = (
        "from blockstore.cli.streams import prepare; prepare(lasting=True); from "
        "blockstore.cli.output import say; "
    )
    process = subprocess.Popen(
        [sys.executable, "-c", said + "say('here'); import time; time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 30)
        assert ready
        assert process.stdout.readline() == b"here\n"
    finally:
        process.kill()
        process.communicate()
