"""TPC-H through a gateway under its default settings, and by the command: every question is
answered by both, and as DuckDB answers it on the bare files.

    python -m tests.end_to_end.gateway_tpch --scale 1 --runs 20

Two questions more are asked over and over: a large answer as CSV, and a grouping of millions of
texts. Both once failed at random for want of addresses, not of memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.ipc as ipc

from blockstore.world import World
from tests.end_to_end.gateways import GatewayProcess
from tests.support.tpch.data import bare, lake, make
from tests.support.tpch.questions import QUESTIONS, question

__all__ = ["Report", "run"]

_AGAIN = (
    ("select * from orders limit 1000000", "text/csv"),
    (
        "select l_comment, count(*) from lineitem group by all order by 2 desc limit 3",
        "application/json",
    ),
)
_BINARY = Path(sys.executable).parent / "blockstore"
_DEFAULTS = {
    "BLOCKSTORE_QUERY_MEMORY": "4GiB",
    "BLOCKSTORE_QUERY_THREADS": "0",
    "BLOCKSTORE_QUERY_TIME_LIMIT": "1h",
}
"""What the shipped file says, but for the time: a slow machine is not what is looked at."""


@dataclass
class Report:
    """What came out; memory is that of the gateway with its children."""

    answered: int = 0
    by_command: int = 0
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    bare_s: dict[int, float] = field(default_factory=dict)
    """By question, what DuckDB takes on the bare files, all of it in one process."""
    gateway_s: dict[int, float] = field(default_factory=dict)
    command_s: dict[int, float] = field(default_factory=dict)
    """By question, from the start of the process to its end."""
    again: int = 0
    peak_kib: int = 0


def run(folder: Path, scale: float, runs: int) -> Report:
    """Every question once, and the two others ``runs`` times."""
    report, world = Report(), World.real()
    files = make(scale, folder / "files")
    url = lake(files, folder / "lake")
    with bare(files) as connection, GatewayProcess(url, folder, "gateway", **_DEFAULTS) as gateway:
        for number in QUESTIONS:
            sql = question(number, scale)
            began_s = world.clock.monotonic_s()
            expected = connection.sql(sql).to_arrow_table()
            ended_s = world.clock.monotonic_s()
            report.bare_s[number] = ended_s - began_s
            answer = _ask(gateway, report, sql, "application/vnd.apache.arrow.stream")
            began_s = world.clock.monotonic_s()
            report.gateway_s[number] = began_s - ended_s
            told = _command(report, url, sql)
            report.command_s[number] = world.clock.monotonic_s() - began_s
            for what, found in (("the gateway", answer), ("the command", told)):
                if found is not None and not _same(found, expected):
                    report.wrong.append(f"question {number}: another answer by {what}")
        for _ in range(runs):
            for sql, accept in _AGAIN:
                report.again += _ask(gateway, report, sql, accept) is not None
    return report


def _ask(gateway: GatewayProcess, report: Report, sql: str, accept: str) -> bytes | None:
    """The whole answer; None where there was none."""
    try:
        answer = gateway.http.post(
            "/v1/query", json={"sql": sql}, headers={"Accept": accept}, timeout=3600
        )
    except httpx.HTTPError as error:
        report.failed.append(f"{sql.split()[:4]} broke off: {error}")
        return None
    report.peak_kib = max(report.peak_kib, gateway.memory_kib())
    if answer.status_code != 200:
        report.failed.append(f"{' '.join(sql.split())[:60]}: {answer.status_code} {answer.text}")
        return None
    report.answered += 1
    return answer.content


def _command(report: Report, url: str, sql: str) -> bytes | None:
    """The whole answer of a process of its own; None where there was none."""
    done = subprocess.run(
        [_BINARY, "query", url, sql, "-o", "arrow"], capture_output=True, timeout=3600
    )
    if done.returncode:
        report.failed.append(f"{' '.join(sql.split())[:60]} by the command: {done.stderr.decode()}")
        return None
    report.by_command += 1
    return done.stdout


def _same(answer: bytes, expected: pa.Table) -> bool:
    with ipc.open_stream(answer) as stream:
        found = stream.read_all()
    return found.column_names == expected.column_names and found.to_pylist() == expected.to_pylist()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), asked.scale, asked.runs)
    for what, took in (
        ("DuckDB on the bare files", report.bare_s),
        ("the gateway", report.gateway_s),
        ("the command", report.command_s),
    ):
        times = ", ".join(f"{number}: {seconds:.2f}" for number, seconds in took.items())
        print(
            f"{what}: {sum(took.values()):.1f} s in all, at most {max(took.values()):.2f}; by "
            f"question {times}"
        )
    print(
        f"{report.by_command} answers by the command; {report.answered} by the gateway at scale "
        f"{asked.scale:g}, {report.again} of them to the two that are asked again; at most "
        f"{report.peak_kib >> 10} MiB right after an answer"
    )
    for failure in (*report.failed, *report.wrong):
        print(f"VIOLATION: {failure}")
    return 0 if not report.failed and not report.wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
