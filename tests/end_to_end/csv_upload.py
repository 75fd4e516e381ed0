"""A CSV of very many narrow rows up into a table with row ids, killed in its last second.

    python -m tests.end_to_end.csv_upload --rows 100000000 [--doors command,gateway]

By the command the write has a batch, by a gateway a key. Each is killed by SIGKILL once the whole
file was read, the command once more when its meta.json is there. What was killed is absent, or
whole if its entry was written; the same again makes it whole, and a third time changes nothing.
Every row and every row id is counted at the end. DuckDB writes the same file as Parquet in the same
run, to compare with. The memory of a command is the most that the kernel has seen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

import blockstore as bs
from blockstore.world import World
from tests.end_to_end.gateways import GatewayProcess, Peak

__all__ = ["DOORS", "Report", "make", "run"]

DOORS = ("command", "gateway")
SCHEMA = pa.schema([("n", pa.int64()), ("v", pa.int32())])
_PIECE = 1_000_000
_ALL_READ = "the file was read"
_COMMAND = "from blockstore.cli.main import main; main()"
_DUCKDB = (
    "import duckdb, sys; duckdb.connect(config={{'threads': 2}}).execute("
    "\"COPY (FROM read_csv('{file}', columns={{'n': 'BIGINT', 'v': 'INTEGER'}})) "
    "TO '{to}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)\")"
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What an upload took: the seconds, and the most memory."""

    seconds: float
    peak_kib: int

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s and {self.peak_kib >> 10} MiB"


@dataclass
class Report:
    """What came out of one door."""

    rows: int
    bytes: int
    killed: list[str] = field(default_factory=list)
    """Each kill, and what it left."""
    costs: list[Cost] = field(default_factory=list)
    """Of the upload that succeeded, and of the same once more."""
    violations: list[str] = field(default_factory=list)

    def expect(self, found: object, expected: object) -> None:
        """Note what is not as expected."""
        if found != expected:
            self.violations.append(f"found {found}, expected {expected}")


def make(path: Path, rows: int) -> None:
    """The file, a piece at a time."""
    with open(path, "wb") as out, pacsv.CSVWriter(out, SCHEMA) as writer:
        for first in range(0, rows, _PIECE):
            n = np.arange(first, min(first + _PIECE, rows))
            v = np.random.default_rng(first).integers(0, 1_000_000, len(n), np.int32)
            writer.write_batch(pa.record_batch([pa.array(n), pa.array(v)], schema=SCHEMA))


def run(door: str, file: Path, rows: int, folder: Path) -> Report:
    """The series of one door; raises nothing for a violation, the report names them."""
    report = Report(rows=rows, bytes=file.stat().st_size)
    url = f"{folder}/lake/t"
    bs.create(url, schema=SCHEMA, row_ids=True)
    if door == "command":
        _by_command(url, file, report)
    else:
        _by_gateway(url, file, folder, report)
    report.expect(bs.open(url).poll(), 2)
    report.violations += _wrong(url, rows)
    return report


def duckdb(file: Path, folder: Path) -> Cost:
    """The same file as one Parquet file."""
    to = folder / "duckdb.parquet"
    _, cost = _finished(_DUCKDB.format(file=file, to=to))
    to.unlink()
    return cost


def _by_command(url: str, file: Path, report: Report) -> None:
    world = World.real()
    write = ["write", url, str(file), "--app", "upload", "--batch", "1", "--json"]
    moments: dict[str, Callable[[int], bool]] = {
        _ALL_READ: lambda pid: _is_read(pid, report.bytes),
        "its meta.json was there": lambda _: any(Path(url).glob("*/meta.json")),
    }
    for name, moment in moments.items():
        process = _started(_COMMAND, *write)
        while process.poll() is None and not moment(process.pid):
            world.clock.sleep(0.0005)
        process.kill()
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            report.violations.append(f"the write ended before it was seen that {name}")
        _judge_killed(url, name, report)
    for already in (False, True):
        said, cost = _finished(_COMMAND, *write)
        report.costs.append(cost)
        block = json.loads(said)
        report.expect((block["version"], block["rows"]), (2, report.rows))
        if already:
            report.expect(block["already"], already)


def _by_gateway(url: str, file: Path, folder: Path, report: Report) -> None:
    world, lake = World.real(), Path(url).parent
    patient = {"BLOCKSTORE_JOBS_TIME_LIMIT": "2h"}

    def sent(gateway: GatewayProcess) -> tuple[bs.Client, Any]:
        client = bs.Client(gateway.url, timeout_s=3600, world=world)
        return client, client.upload("t", file, key="the rows")

    with GatewayProcess(str(lake), folder, "first", **patient) as gateway:
        client, _ = sent(gateway)
        with client:
            while not _is_read(gateway.pid, report.bytes):
                if bs.open(url).poll() > 1:
                    report.violations.append(f"the job ended before it was seen that {_ALL_READ}")
                    break
                world.clock.sleep(0.0005)
            gateway.kill()
    _judge_killed(url, _ALL_READ, report)
    with GatewayProcess(str(lake), folder, "second", **patient) as gateway:
        for _ in range(2):
            began_s = world.clock.monotonic_s()
            with Peak(gateway) as peak:
                client, job = sent(gateway)
                with client:
                    report.expect(job.wait().told["written"]["rows"], report.rows)
            seconds = world.clock.monotonic_s() - began_s
            report.costs.append(Cost(seconds=seconds, peak_kib=peak.kib))


def _judge_killed(url: str, name: str, report: Report) -> None:
    """What a kill left: nothing that a reader sees, or with the entry every row."""
    table = bs.open(url)
    visible = table.snapshot().count()
    uploaded = sum(one.stat().st_size for one in Path(url).glob("*/chunks/*"))
    report.killed.append(f"when {name}: {uploaded >> 20} MiB uploaded, {visible:,} rows visible")
    report.expect(visible, 0 if table.poll() == 1 else report.rows)


def _wrong(url: str, rows: int) -> list[str]:
    """What is wrong with the table: each row and each row id must be there once."""
    counts = {name: np.zeros(rows, np.uint8) for name in ("n", "_row_id")}
    for batch in bs.open(url).snapshot().scan(columns=[*counts]).to_reader():
        for name, seen in counts.items():
            np.add.at(seen, batch.column(name).to_numpy(), 1)
    return [
        f"of {rows} values of {name} {wrong} are not there once"
        for name, seen in counts.items()
        if (wrong := int((seen != 1).sum()))
    ]


def _started(code: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _finished(code: str, *words: str) -> tuple[str, Cost]:
    """What a program said, and what it took. Raises CalledProcessError where it fails."""
    clock = World.real().clock
    began_s = clock.monotonic_s()
    process = _started(code, *words)
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return said, Cost(seconds=clock.monotonic_s() - began_s, peak_kib=used.ru_maxrss)


def _is_read(pid: int, size: int) -> bool:
    """Whether a process holds a file of this size open that it has read to its end."""
    for one in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            if one.stat().st_size != size:
                continue
            _, position, _, flags, *_ = Path(f"/proc/{pid}/fdinfo/{one.name}").read_text().split()
        except (OSError, ValueError):
            continue
        if int(position) == size and int(flags, 8) & os.O_ACCMODE == os.O_RDONLY:
            return True
    return False


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--doors", default=",".join(DOORS))
    asked = parser.parse_args(arguments)
    failed, parts = 0, []
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "rows.csv"
        make(file, asked.rows)
        for door in asked.doors.split(","):
            place = folder / door
            place.mkdir()
            report = run(door, file, asked.rows, place)
            shutil.rmtree(place)
            failed += len(report.violations)
            for line in (*report.killed, *report.violations):
                print(f"{door}: {line}")
            first, third = report.costs
            rate = asked.rows / first.seconds / 1e6
            parts.append(f"{door} {first}, {rate:.2f} M rows/s, once more {third}")
        parts.append(f"DuckDB to Parquet {duckdb(file, folder)}")
        mib = file.stat().st_size >> 20
    print(f"csv-upload: {asked.rows:,} rows, {mib} MiB: {'; '.join(parts)}; {failed} violations")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
