"""The proxy from outside: started as a process, and controlled."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.latency.fate import Fault
from bench.latency.faults import Faults
from bench.latency.record import Record

__all__ = ["GIGABIT", "Proxy"]

PROJECT = Path(__file__).resolve().parent.parent.parent
GIGABIT = 1_000.0
TIMEOUT_S = 30.0


class Proxy:
    """A proxy that runs; made by ``between``."""

    def __init__(self, port: int, control: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._control = socket.create_connection(("127.0.0.1", control), timeout=TIMEOUT_S)
        self._answers = self._control.makefile("rb")

    @classmethod
    @contextmanager
    def between(
        cls, upstream: str, *, delay_ms: float = 25.0, mbit_per_s: float = GIGABIT
    ) -> Iterator[Proxy]:
        """Run a proxy in front of ``upstream`` (``http://HOST:PORT``)."""
        command = [sys.executable, "-m", "bench.latency", upstream, str(delay_ms), str(mbit_per_s)]
        with subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin is not None, "it is a pipe"
            assert process.stdout is not None, "it is a pipe"
            try:
                ports = json.loads(process.stdout.readline())
                proxy = cls(ports["port"], ports["control"])
                try:
                    yield proxy
                finally:
                    proxy.close()
            finally:
                process.stdin.close()

    def set(self, *, delay_ms: float, mbit_per_s: float = GIGABIT) -> None:
        """Another delay and bandwidth, from the next response on."""
        self._ask(do="set", delay_ms=delay_ms, mbit_per_s=mbit_per_s)

    def inject(self, faults: Faults | None) -> dict[Fault, int]:
        """Other faults, or none, from the next request on, at the delay that is set now; returns
        how many of each kind those before them were."""
        plain = None if faults is None else faults.plain()
        injected = self._ask(do="faults", faults=plain)
        return {Fault(kind): count for kind, count in injected.items()}

    def reset(self) -> None:
        """Forget the record."""
        self._ask(do="reset")

    def take(self) -> Record:
        """The record since the last reset."""
        return Record.of(self._ask(do="take"))

    def close(self) -> None:
        """Let go of the control port."""
        self._answers.close()
        self._control.close()

    def _ask(self, **command: Any) -> dict[str, Any]:
        self._control.sendall(json.dumps(command).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self._answers.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer
