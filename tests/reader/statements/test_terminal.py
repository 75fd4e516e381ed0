"""``blockstore sql`` in a real terminal, as a person uses it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import pty
import random
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.reader.statements.terminal import remembered

pytest.importorskip("readline")

FIRST = r"sql> $"
SLOW = "select count(*) from range(1000000) a(i), range(1000000) b(j) where i * j % 7 = 3"
PATIENCE_S = 60.0
UP, CTRL_C, CTRL_D, CTRL_U = "\x1b[A", "\x03", "\x04", "\x15"


class Terminal:
    """A terminal of 100 by 30 characters, and the shell in it."""

    def __init__(self, url: str, folder: Path, pager: str = "") -> None:
        env = {
            **os.environ,
            "TERM": "xterm",
            "PAGER": pager,
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONUNBUFFERED": "1",
        }
        env.pop("NO_COLOR", None)
        code = "from blockstore.cli.main import main; main()"
        argv = [sys.executable, "-c", code, "sql", url]
        self.process, self._terminal = pty.fork()
        if self.process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.execve(argv[0], argv, env)

    def read(self, until: str, patience_s: float = PATIENCE_S) -> str:
        """What it shows until a pattern is there, without what only controls a terminal."""
        shown, end_s = "", time.monotonic() + patience_s
        while time.monotonic() < end_s:
            ready, _, _ = select.select([self._terminal], [], [], 1.0)
            if not ready:
                continue
            try:
                data = os.read(self._terminal, 65_536)
            except OSError:
                data = b""
            if not data:
                break
            shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", data.decode(errors="replace"))
            if re.search(until, shown):
                return shown
        raise AssertionError(f"{until!r} is not in {shown[-2_000:]!r}")

    def type(self, keys: str, until: str = FIRST) -> str:
        """Type; return what it shows then."""
        os.write(self._terminal, keys.encode())
        return self.read(until)

    def computes(self) -> None:
        """Wait until the threads of the engine have used a fifth of a second of a processor more
        than now."""
        before, end_s = self._used(), time.monotonic() + PATIENCE_S
        while self._used() < before + 20:
            assert time.monotonic() < end_s, "nothing runs"
            time.sleep(0.02)

    def rests(self) -> None:
        """Wait until the threads of the engine use nothing for half a second."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            before = self._used()
            time.sleep(0.5)
            if self._used() == before:
                return
            assert time.monotonic() < end_s, "something still runs"

    def _used(self) -> int:
        """Hundredths of a second that all threads but the main one have used."""
        used = 0
        for task in Path(f"/proc/{self.process}/task").glob("*/stat"):
            if task.parent.name != str(self.process):
                with contextlib.suppress(OSError):
                    used += int(task.read_text().rpartition(")")[2].split()[11])
        return used

    def interrupt_another_thread(self) -> None:
        """SIGINT to a thread that is not the main one: Python notes it, and the main thread, which
        waits for keys, does not see it. So it is where a signal comes just before that wait."""
        blocked = {
            int(one.name): int(re.findall(r"SigBlk:\s*(\w+)", (one / "status").read_text())[0], 16)
            for one in Path(f"/proc/{self.process}/task").iterdir()
        }
        bit = 1 << (signal.SIGINT - 1)
        thread = next(
            one for one, bits in blocked.items() if one != self.process and not bits & bit
        )
        call = {"x86_64": 234, "aarch64": 131}[platform.machine()]  # tgkill
        assert ctypes.CDLL(None).syscall(call, self.process, thread, int(signal.SIGINT)) == 0

    def code(self) -> int:
        """How it ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def close(self) -> None:
        """End it in any case."""
        try:
            os.kill(self.process, 9)
            os.waitpid(self.process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self._terminal)


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "lake").mkdir()
    url = f"{tmp_path}/lake?durable=false"
    bs.sql(url, "CREATE TABLE stock (item VARCHAR PRIMARY KEY, amount INTEGER)")
    bs.sql(url, "INSERT INTO stock VALUES ('nut', 5), ('bolt', 7)")
    return url


@pytest.fixture
def terminal(url: str, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(url, tmp_path)
    assert made.read(FIRST).startswith("1 table. A statement ends with ;")
    yield made
    made.close()


def test_a_statement_of_several_lines_is_one_entry_of_the_history(
    terminal: Terminal, url: str, tmp_path: Path
) -> None:
    terminal.type("select amount\r", r"\.\.\.> $")
    terminal.type("from stock\r", r"\.\.\.> $")
    assert "\n     5\n" in terminal.type("where item = 'nut';\r")
    assert "select amount from stock where item = 'nut';" in terminal.type(UP, "'nut';$")
    assert "\n     5\n" in terminal.type("\r")
    terminal.type(CTRL_D, r"\n$")
    assert terminal.code() == 0
    again = Terminal(url, tmp_path)
    again.read(FIRST)
    assert "select amount from stock where item = 'nut';" in again.type(UP, "'nut';$")
    again.close()


def test_tab_completes_words_tables_and_their_columns(terminal: Terminal) -> None:
    terminal.type("sel\t", "select$")
    terminal.type(" am", "am$")
    terminal.type(" from sto\t", "stock$")
    terminal.type(" where am\t", "amount$")
    terminal.type(" = 7 and stock.it\t", r"stock\.item$")
    terminal.type(CTRL_U + "SEL\t", "SELECT$")
    terminal.type(CTRL_C)


def test_ctrl_c_drops_what_is_typed_and_stops_what_runs(terminal: Terminal, url: str) -> None:
    terminal.type("select 'not closed\r", r"\.\.\.> $")
    terminal.type(CTRL_C)
    for statement in (SLOW, f"update stock set amount = ({SLOW})", f"copy ({SLOW}) to 'x.csv'"):
        terminal.type(f"{statement};\r", r";\n")
        terminal.computes()
        assert "error: interrupted" in terminal.type(CTRL_C)
        terminal.rests()
    assert "12" in terminal.type("select sum(amount) as s from stock;\r")
    assert bs.open(url.replace("lake?", "lake/stock?")).log.state.version == 2


def test_ctrl_c_at_any_moment_after_enter_drops_or_stops_the_statement(terminal: Terminal) -> None:
    dice = random.Random(5)
    for _ in range(12):
        os.write(terminal._terminal, f"{SLOW};\r".encode())
        terminal.read(r";\n")
        time.sleep(dice.choice([0.0, 0.0, 0.001, 0.01, 0.1]))
        terminal.type(CTRL_C)
        terminal.rests()
    assert "12" in terminal.type("select sum(amount) as s from stock;\r")


def test_ctrl_c_again_and_again_does_not_end_the_shell(terminal: Terminal) -> None:
    for _ in range(3):
        terminal.type(f"{SLOW};\r", r";\n")
        terminal.computes()
        for _ in range(40):
            os.write(terminal._terminal, CTRL_C.encode())
            time.sleep(0.005)
        terminal.read(FIRST)
        terminal.rests()  # until the last one was heard, too
        assert "\n12\n" in terminal.type("select 12 as a;\r", r"12\n(.|\n)*sql> $")


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the number of a call")
def test_ctrl_c_that_readline_does_not_see_is_heard_without_another_key(
    terminal: Terminal,
) -> None:
    os.write(terminal._terminal, b"select 'typed")
    terminal.read("typed$")
    terminal.interrupt_another_thread()
    assert terminal.read(FIRST) == "\nsql> "
    assert "\n12\n" in terminal.type("select 12 as a;\r", r"12\n(.|\n)*sql> $")


def test_a_transaction_shows_in_the_prompt_that_it_is_open_and_that_it_failed(
    terminal: Terminal,
) -> None:
    terminal.type("begin;\r", r"sql\*> $")
    terminal.type("delete from stock;\r", r"sql\*> $")
    terminal.type("delete from nowhere;\r", r"sql!> $")
    assert "nothing was changed" in terminal.type("rollback;\r")
    assert "12" in terminal.type("select sum(amount) as s from stock;\r")


def test_rows_are_counted_while_they_are_written(terminal: Terminal) -> None:
    terminal.type("create table long (i bigint);\r")
    for prompt in (FIRST, r"sql\*> $"):
        if prompt != FIRST:
            terminal.type("begin;\r", prompt)
        shown = terminal.type("insert into long select * from range(100000);\r", prompt)
        assert re.search(r"INSERT +100,000 rows +0:00", shown)
        assert "INSERT: 100,000 inserted" in shown


def test_words_of_other_shells_are_answered(terminal: Terminal) -> None:
    assert "ends a statement" in terminal.type("\\?\r")
    assert "ends a statement" in terminal.type("help;\r")
    for tables in ("\\d\r", ".tables\r", "show tables;\r"):
        assert "\nstock\n" in terminal.type(tables)
    assert "amount" in terminal.type("\\d stock\r")
    assert "there is no table nowhere" in terminal.type("\\d nowhere\r")
    assert "error: \\timing is nothing" in terminal.type("\\timing\r")
    assert terminal.type(";;\r") == ";;\nsql> "
    terminal.type("exit;\r", r"\n$")
    assert terminal.code() == 0


def test_a_table_longer_than_the_screen_goes_to_the_pager(url: str, tmp_path: Path) -> None:
    terminal = Terminal(url, tmp_path, pager="sed s/^/|/")
    terminal.read(FIRST)
    assert "\n|" not in terminal.type("select i from range(20) r(i);\r")
    long = terminal.type("select i from range(2000) r(i);\r")
    assert "\n|999\n" in long
    assert long.splitlines()[-2].startswith("|the first 1,000 rows are shown: COPY")
    terminal.close()


def test_a_screen_without_a_pager_shows_all_rows(terminal: Terminal) -> None:
    assert "\n99\n" in terminal.type("select i from range(100) r(i);\r")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("select 1;", ["select 1;"]),
        ("select 1\n\n  from t\n;", ["select 1   from t ;"]),
        ("select -- one\n1;", ["select -- one", "1;"]),
        ("select 'a\nb';", ["select 'a", "b';"]),
        ("select /* a\n b */ 1;", ["select /* a  b */ 1;"]),
        ("\\d", ["\\d"]),
    ],
)
def test_the_history_keeps_what_a_statement_means(typed: str, kept: list[str]) -> None:
    assert remembered(typed) == kept
