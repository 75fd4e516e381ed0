"""A contestant's process from outside: started, asked, ended."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.latency.proxy import Proxy
from bench.latency.record import Record
from bench.memory import highest_mib
from bench.peers.api import Peer, Unsupported

__all__ = ["Measured", "Session"]

NOTHING = Record(exchanges=(), connections=0, unfinished=0)
PROJECT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One verb that was carried out, and the requests that a proxy saw of it."""

    seconds: list[Any]
    cpu_s: float
    record: Record

    @property
    def ms(self) -> float:
        """The milliseconds of all its parts together."""
        return 1_000 * sum(self.seconds)


class Session:
    """A process that runs; made by ``started``."""

    def __init__(
        self, process: subprocess.Popen[str], proxy: Proxy | None, start_ms: float
    ) -> None:
        self._process = process
        self._proxy = proxy
        self.start_ms = start_ms
        """From the start of the process until its libraries are imported."""

    @classmethod
    @contextmanager
    def started(cls, peer: Peer, directory: Path, proxy: Proxy | None = None) -> Iterator[Session]:
        """Start the process of ``peer``, with a cache of its own that is empty; without a proxy its
        requests are not recorded."""
        with ExitStack() as stack:
            cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-cache-"))
            settings = {"XDG_CACHE_HOME": cache, "PYTHONPATH": str(PROJECT)}
            if proxy is not None:
                settings["AWS_ENDPOINT_URL"] = proxy.endpoint
            command = [peer.interpreter(), "-m", "bench.latency.child", peer.name, str(directory)]
            start = time.perf_counter()
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    cwd=PROJECT,
                    env={**os.environ, **settings},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            session = cls(process, proxy, 0.0)
            session._answer()
            session.start_ms = (time.perf_counter() - start) * 1_000
            try:
                yield session
            finally:
                assert process.stdin is not None, "it is a pipe"
                process.stdin.close()

    def do(self, verb: str, **arguments: Any) -> Measured:
        """Carry out one verb of ``child.Turns``, alone on the proxy."""
        if self._proxy is not None:
            self._proxy.reset()
        self.ask(verb, **arguments)
        return self.answer()

    def ask(self, verb: str, **arguments: Any) -> None:
        """Ask without waiting: for several processes at once."""
        assert self._process.stdin is not None, "it is a pipe"
        print(json.dumps({"do": verb, **arguments}), file=self._process.stdin, flush=True)

    def answer(self) -> Measured:
        """Wait for the answer to ``ask``."""
        answer = self._answer()
        record = NOTHING if self._proxy is None else self._proxy.take()
        return Measured(seconds=answer["seconds"] or [], cpu_s=answer["cpu_s"], record=record)

    def peak_mib(self) -> float:
        """The most memory that the process, and those which it started, have held so far."""
        return highest_mib(self._process.pid)

    def close(self) -> None:
        """Have it close its handle."""
        self.ask("close")
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "it is a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the contestant's process ended with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer
