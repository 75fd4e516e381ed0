"""The proxy as a process: a port for clients, and one that controls it.

The control port takes one JSON object a line and answers one: ``{"do": "set", "delay_ms": 25,
"mbit_per_s": 1000}``, ``{"do": "reset"}``, ``{"do": "take"}`` (the record since the reset),
``{"do": "faults", "faults": {...}}`` (null for none; the answer counts those before). The process
prints both ports as JSON, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from bench.latency.fate import Course, Steady
from bench.latency.faults import Faults, Faulty
from bench.latency.framing import LIMIT, Head
from bench.latency.line import Line
from bench.latency.log import Log
from bench.latency.relay import Relay

__all__ = ["Running", "main", "prefer"]

HOST = "127.0.0.1"
PREFERRED = -10


class Running:
    """A proxy in this process's event loop."""

    def __init__(self, upstream: str, delay_ms: float, mbit_per_s: float) -> None:
        address = urlsplit(upstream)
        if address.scheme != "http" or not address.hostname or not address.port:
            raise ValueError(f"the server is {upstream!r}, expected http://HOST:PORT")
        self._fate = Steady(delay_ms / 1_000)
        self._faulty: Faulty | None = None
        self._lines = (Line(mbit_per_s * 1e6), Line(mbit_per_s * 1e6))
        self._log = Log(time.perf_counter)
        up, down = self._lines
        self._relay = Relay(
            address.hostname, address.port, fate=self._course, up=up, down=down, log=self._log
        )

    async def start(self) -> tuple[asyncio.Server, asyncio.Server]:
        """Listen; returns what serves clients and what serves the control port."""
        return (
            await asyncio.start_server(self._relay.serve, HOST, 0, limit=LIMIT, backlog=512),
            await asyncio.start_server(self._control, HOST, 0),
        )

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command of the control port."""
        verb = command.get("do")
        if verb == "set":
            self._fate.delay_s = command["delay_ms"] / 1_000
            for line in self._lines:
                line.bits_per_s = command["mbit_per_s"] * 1e6
        elif verb == "faults":
            return self._inject(command["faults"])
        elif verb == "reset":
            self._log.reset()
        elif verb == "take":
            return self._log.record().plain()
        else:
            return {"error": f"{verb!r} is not a command: use set, faults, reset or take"}
        return {}

    def _course(self, request: Head) -> Course:
        return (self._faulty or self._fate)(request)

    def _inject(self, faults: dict[str, Any] | None) -> dict[str, Any]:
        """Other faults from the next request on; returns how many of each there were by now."""
        injected = dict(self._faulty.injected) if self._faulty is not None else {}
        self._faulty = None
        if faults is not None:
            self._faulty = Faulty(
                Faults.of(faults), delay_s=self._fate.delay_s, clock=time.perf_counter
            )
        return injected

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(self.do(json.loads(line))).encode() + b"\n")
            await writer.drain()
        writer.close()


def prefer(pid: int) -> None:
    """Let a process that plays the network or the store go before the contestants and other work on
    this machine, where that is allowed: neither gets slower when a client computes."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, PREFERRED)


def port(server: asyncio.Server) -> int:
    """The port that a server listens at."""
    return int(server.sockets[0].getsockname()[1])


async def main(upstream: str, delay_ms: float, mbit_per_s: float) -> None:
    """Run until standard input ends."""
    prefer(os.getpid())
    clients, control = await Running(upstream, delay_ms, mbit_per_s).start()
    print(json.dumps({"port": port(clients), "control": port(control)}), flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    clients.close()
    control.close()
