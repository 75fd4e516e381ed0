"""The fenced blocks of every page, and how those of one page are run: in their order, in one
folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.interrupts import hear

ROOT = Path(__file__).parent.parent.parent
FAILS = "# exits 1"
FOR_EVER = re.compile(r"^blockstore (serve\b|compact .*--wait|.*--follow)")
ULID = "01JD…"
"""Stands on a page for the ULID that the answer before it named."""


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.first}"


def pages() -> list[str]:
    """Every page that git knows of."""
    found = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return sorted(found.stdout.split())


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    found = re.finditer(r"^( *)```([^\n`]*)\n(.*?)^\1```$", text, flags=re.DOTALL | re.MULTILINE)
    return [Block(page, text[: one.start()].count("\n") + 1, one[2], one[3]) for one in found]


def commands(block: Block) -> list[str]:
    """A command a line; one that goes on in the next line is one."""
    text = re.sub(r"^\$ ", "", block.text, flags=re.MULTILINE).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@dataclass
class Page:
    """Runs a page's blocks: ``instead`` are texts of the page and what stands for them here."""

    folder: Path
    instead: Mapping[str, str] = field(default_factory=dict)
    python: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.ulid = ULID
        self._lasting: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "BLOCKSTORE_HTTP_LISTEN": f"127.0.0.1:{self.port}",
            "PYTHONFAULTHANDLER": "1",
        }

    def run(self, block: Block) -> None:
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(self.here(block.text), str(block), "exec"), self.python)
            return
        for command in commands(block):
            self.command(self.here(command), str(block))

    def here(self, text: str) -> str:
        for there, here in {**self.instead, ULID: self.ulid}.items():
            text = text.replace(there, here)
        return re.sub(r"127\.0\.0\.1:808[01]", f"127.0.0.1:{self.port}", text)

    def command(self, command: str, where: str) -> None:
        if FOR_EVER.match(command):
            self._start(command)
            return
        words = ["bash", "-euc", f"set -o pipefail; {command}"]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (1 if FAILS in command else 0), (
            f"{where}\n{command}\n{done.stdout}{done.stderr}"
        )
        assert not re.search(r'"error": ?"', done.stdout), f"{where}\n{command}\n{done.stdout}"
        named = re.search(r'"(?:id|job)": ?"([0-9A-Z]{26})"', done.stdout)
        if named:
            self.ulid = named[1]
            time.sleep(1.0)  # the next line asks for what the job has made

    def _start(self, command: str) -> None:
        """Something that goes on until the next one like it, or the end of the page."""
        self.stop()
        self._lasting = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self._environment,
            stderr=subprocess.PIPE,
            preexec_fn=hear,
        )
        deadline = time.monotonic() + 60
        while (
            "--follow" not in command
            and time.monotonic() < deadline
            and self._lasting.poll() is None
        ):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                break
            time.sleep(0.05)
        else:
            time.sleep(1.0)

    def stop(self) -> None:
        """End it as a person does; it must have lasted until then."""
        lasting, self._lasting = self._lasting, None
        if lasting is None:
            return
        ended = lasting.poll()
        lasting.send_signal(signal.SIGINT)
        try:
            told = lasting.communicate(timeout=60)[1].decode()
        except subprocess.TimeoutExpired:
            lasting.send_signal(signal.SIGABRT)  # it prints where each of its threads is
            told = lasting.communicate()[1].decode()
            raise AssertionError(f"{lasting.args}: did not end on SIGINT: {told}") from None
        assert ended is None, f"{lasting.args}: ended by itself, {ended}: {told}"


@contextlib.contextmanager
def running(page: Page) -> Iterator[Page]:
    with contextlib.chdir(page.folder):
        try:
            yield page
        finally:
            page.stop()
