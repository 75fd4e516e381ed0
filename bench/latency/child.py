"""One contestant in a process of its own: ``python -m bench.latency.child PEER DIRECTORY``.

It imports the contestant's libraries and says so; pandas too, which pyarrow imports with its first
array where it is installed. Then it does what it is asked, one JSON object a line in, one out: a
verb with its arguments, and the seconds that it took. A handle is opened by the first verb that
needs one, within its time: a cold query opens its table.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from bench import inputs, peers
from bench.peers.api import Handle, Peer, Unsupported

__all__ = ["Turns", "main"]

SAMPLES = 20


class Turns:
    """The verbs. Each returns the seconds of what is measured, or of each of its parts."""

    def __init__(self, peer: Peer, directory: Path) -> None:
        self._peer = peer
        self._directory = directory
        self._handle: Handle | None = None

    def close(self) -> None:
        """Let go of the handle; the next verb opens the table again."""
        if self._handle is not None:
            self._handle.close()
        self._handle = None

    def create(self) -> list[float]:
        """A new table."""
        return [_seconds(lambda: self._keep(self._peer.create(self._directory, inputs.SCHEMA, [])))]

    def open(self) -> list[float]:
        """The table, opened."""
        return [_seconds(lambda: self._opened)]

    def append(self, times: int, rows: int, seed: int) -> list[float]:
        """Appends in turn."""
        tables = inputs.small(min(times, SAMPLES), rows, seed)
        handle = self._opened
        return [
            _seconds(lambda number=number: handle.append(tables[number % len(tables)]))
            for number in range(times)
        ]

    def append_threads(self, threads: int, times: int, rows: int, seed: int) -> list[float]:
        """Appends by threads on one handle: the seconds of all of them together."""
        tables = inputs.small(SAMPLES, rows, seed)
        handle = self._opened

        def work(number: int) -> None:
            for turn in range(times):
                handle.append(tables[(number + turn) % SAMPLES])

        with ThreadPoolExecutor(threads) as pool:
            return [_seconds(lambda: list(pool.map(work, range(threads))))]

    def append_until(self, times: int, rows: int, seed: int, limit_s: float) -> list[list[float]]:
        """Appends in turn, as the begin and end of each on the machine's clock; none that was
        refused."""
        tables = inputs.small(min(times, SAMPLES), rows, seed)
        handle, begin = self._opened, time.perf_counter()
        found = []
        for number in range(times):
            before = time.perf_counter()
            if before - begin > limit_s:
                break
            try:
                handle.append(tables[number % len(tables)])
            except Exception as error:  # noqa: BLE001 - what reaches the caller is counted
                print(f"refused: {type(error).__name__}: {error}", file=sys.stderr)
            else:
                found.append([before, time.perf_counter()])
        return found

    def poll(self, times: int) -> list[float]:
        """Looks for new commits."""
        handle = self._opened
        return [_seconds(handle.poll) for _ in range(times)]

    def count(self, expected: int) -> list[float]:
        """The number of rows."""
        return [_seconds(lambda: _expect("rows", self._opened.count(), expected))]

    def point(self, low: int, rows: int) -> list[float]:
        """Neighboring rows."""
        return [
            _seconds(lambda: _expect("rows", self._opened.point_range(low, low + rows - 1), rows))
        ]

    def group_by(self, shift: int, expected: int) -> list[float]:
        """Count and sum by origin."""
        return [
            _seconds(lambda: _expect("rows", sum(self._opened.group_by(shift).values()), expected))
        ]

    def plan(self, key: int, expected: int) -> list[float]:
        """The files that a query of one row reads."""
        return [_seconds(lambda: _expect("files", self._opened.plan(key), expected))]

    def plan_all(self, expected: int) -> list[float]:
        """The files of all rows."""
        return [_seconds(lambda: _expect("files", self._opened.plan_all(), expected))]

    def plan_merges(self, apart_ms: int, expected: int) -> list[float]:
        """What there is to merge."""
        return [_seconds(lambda: _expect("merges", self._opened.plan_merges(apart_ms), expected))]

    def add_files(self, first: int, times: int) -> list[float]:
        """Commits of one file each."""
        handle = self._opened
        return [
            _seconds(lambda number=number: handle.add_files(number, 1))
            for number in range(first, first + times)
        ]

    def add_late(self, count: int) -> list[float]:
        """A commit of files among those of earlier times."""
        return [_seconds(lambda: self._opened.add_late(count))]

    def merge(self) -> list[float]:
        """All blocks into few."""
        return [_seconds(lambda: self._opened.merge())]

    @property
    def _opened(self) -> Handle:
        if self._handle is None:
            self._keep(self._peer.open(self._directory))
        assert self._handle is not None, "it was just opened"
        return self._handle

    def _keep(self, handle: Handle) -> None:
        self._handle = handle


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _expect(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{found} {what}, expected {expected}")


def main(arguments: Sequence[str]) -> None:
    """Import the contestant, then serve standard input."""
    name, directory = arguments
    # What libraries print goes to the log: the answers have standard output for themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    pa.array([0])
    turns = Turns(peers.load(name), Path(directory))
    _say(answers, {"ready": True})
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        verb = command.pop("do")
        cpu = time.process_time()
        try:
            seconds = getattr(turns, verb)(**command)
        except Unsupported as refusal:
            _say(answers, {"unsupported": str(refusal)})
        except Exception as error:  # noqa: BLE001 - a contestant's fault is its result
            _say(answers, {"failed": f"{type(error).__name__}: {error}".splitlines()[0]})
        else:
            _say(answers, {"seconds": seconds, "cpu_s": time.process_time() - cpu})
    turns.close()


def _say(answers: IO[str], answer: dict[str, Any]) -> None:
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
