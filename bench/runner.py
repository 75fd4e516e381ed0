"""Runs cases: contestants in turn, round by round, each turn in a process of its own.

Rules:
- The order rotates from round to round, so that no contestant always runs first.
- Dirty pages are written out before a turn: no contestant pays for what another wrote.
- A contestant that fails or refuses once is out of the case; the others go on.
- What many small writes made stays to the end of the run: for minutes ext4 checks every inode that
  was deleted a moment ago, and the next writer would pay for it (two to three times the system time
  of an append).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.case import Case, Prepare, Scale
from bench.cases.at_latency import TIMELINES_VARIABLE
from bench.machine import Machine
from bench.memory import wait_sampling
from bench.result import Contestant, Result, Status
from bench.server import server
from bench.worker import Answer, Request

__all__ = ["Runner"]

PROJECT = Path(__file__).resolve().parent.parent
TURN_LIMIT_S = 1_800.0
FIXED_SEED = 20_130
TIMELINES = "timelines"


class Runner:
    """One run of several cases, with the tables that they share."""

    def __init__(
        self, root: Path, scale: Scale, chosen: frozenset[str], say: Callable[[str], None]
    ) -> None:
        self._root = root
        self._scale = scale
        self._chosen = chosen
        self._say = say
        self._server = ExitStack()
        self._settings: dict[str, str] = {}
        self._tables: dict[tuple[str, str, str], tuple[Path, Answer]] = {}
        self._turns = 0

    def close(self) -> None:
        """End the S3 server, if a case needed one."""
        self._server.close()

    def run(self, case: Case, rounds: int | None = None) -> Result:
        """Measure ``case`` for every chosen contestant that it names."""
        if case.store and not self._settings:
            self._settings = self._server.enter_context(server(self._root / "s3"))
        began = datetime.now(UTC)
        rounds = rounds or (case.rounds if self._scale is Scale.FULL else 1)
        standing = {name: _Standing() for name in case.peers if name in self._chosen}
        for number in range(rounds):
            names = list(standing)
            turn = number % len(names) if names else 0
            for name in names[turn:] + names[:turn]:
                if standing[name].out:
                    continue
                answer = self._round(case, name, number)
                standing[name].add(answer)
                shown = " ".join(
                    f"{metric}={value:.4g}" for metric, value in answer.figures.items()
                )
                self._say(f"{case.name} {number + 1}/{rounds} {name}: {shown or answer.reason}")
        return Result(
            bench=case.name,
            scale=self._scale,
            date=began.isoformat(timespec="seconds"),
            machine=Machine.here(),
            sizes=case.sizes[self._scale],
            rounds=rounds,
            contestants={name: found.contestant() for name, found in standing.items()},
        )

    def _round(self, case: Case, name: str, number: int) -> Answer:
        place = self._root / case.name / name / f"round-{number}"
        place.mkdir(parents=True)
        try:
            directory = place
            if case.prepare is not None:
                owner = case.borrows.get(name, name)
                if owner not in self._chosen:
                    return _out(
                        Status.UNSUPPORTED,
                        f"it reads the files of {owner}, which does not take part",
                    )
                directory, prepared = self._table(case, case.prepare, owner, place, number)
                if prepared.status is not Status.OK:
                    return prepared
            return self._turn(case, name, directory, seed=FIXED_SEED + number, prepare=False)
        finally:
            if case.prepare is not None:
                shutil.rmtree(place.parent, ignore_errors=True)

    def _table(
        self, case: Case, prepare: Prepare, owner: str, place: Path, number: int
    ) -> tuple[Path, Answer]:
        if prepare.every_round:
            return place, self._turn(case, owner, place, seed=FIXED_SEED + number, prepare=True)
        key = (prepare.name, json.dumps(case.sizes[self._scale], sort_keys=True), owner)
        if key not in self._tables:
            directory = self._root / "tables" / f"{len(self._tables)}-{prepare.name}-{owner}"
            directory.mkdir(parents=True)
            self._say(f"{case.name}: making the table of {owner}")
            self._tables[key] = (
                directory,
                self._turn(case, owner, directory, seed=FIXED_SEED, prepare=True),
            )
        return self._tables[key]

    def _turn(self, case: Case, name: str, directory: Path, *, seed: int, prepare: bool) -> Answer:
        request = Request(
            case=case.name,
            peer=name,
            scale=self._scale,
            directory=str(directory),
            seed=seed,
            prepare=prepare,
        )
        self._turns += 1
        log = self._root / f"{self._turns:04d}-{case.name}-{name}.log"
        asked, answered = log.with_suffix(".request.json"), log.with_suffix(".answer.json")
        asked.write_text(json.dumps(asdict(request)))
        os.sync()
        command = [sys.executable, "-m", "bench.worker", str(asked), str(answered)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**os.environ, TIMELINES_VARIABLE: str(self._root / TIMELINES)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                if case.memory and not prepare:
                    peak = wait_sampling(process, TURN_LIMIT_S)
                else:
                    peak = None
                    process.wait(TURN_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return _out(Status.FAILED, f"took longer than {TURN_LIMIT_S:.0f} s")
        if not answered.exists():
            return _out(
                Status.FAILED, f"its process ended with code {process.returncode}, see {log}"
            )
        fields = json.loads(answered.read_text())
        answer = Answer(**(fields | {"status": Status(fields["status"])}))
        if peak is not None and answer.status is Status.OK:
            answer.figures["memory_mib"] = peak
        return answer


class _Standing:
    """What a contestant has shown so far."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []

    @property
    def out(self) -> bool:
        return bool(self._answers) and self._answers[-1].status is not Status.OK

    def add(self, answer: Answer) -> None:
        self._answers.append(answer)

    def contestant(self) -> Contestant:
        last = self._answers[-1]
        good = [answer for answer in self._answers if answer.status is Status.OK]
        metrics = good[0].figures if good and not self.out else {}
        return Contestant(
            version=last.version,
            settings=last.settings,
            status=last.status,
            reason=last.reason,
            figures={
                metric: tuple(float(f"{answer.figures[metric]:.6g}") for answer in good)
                for metric in metrics
            },
        )


def _out(status: Status, reason: str) -> Answer:
    return Answer(status=status, reason=reason, version="", settings="", figures={})
