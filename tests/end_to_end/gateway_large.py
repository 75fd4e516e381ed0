"""A large CSV up into a table and down again, through one gateway whose memory is watched.

python -m tests.end_to_end.gateway_large --mib 1024
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from blockstore.world import World
from tests.end_to_end.gateways import GatewayProcess, Peak

__all__ = ["Report", "run"]

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("s", pa.string())])


@dataclass
class Report:
    """What came out; memory is that of the gateway with its children."""

    bytes_up: int = 0
    rows: int = 0
    bytes_down: int = 0
    rows_down: int = 0
    idle_kib: int = 0
    peak_up_kib: int = 0
    peak_down_kib: int = 0
    progress_up: int = 0
    progress_down: int = 0


def run(folder: Path, mib: int) -> Report:
    """Up, and down."""
    report, world = Report(), World.real()
    bs.create(f"{folder}/lake/t?durable=false", schema=SCHEMA, time_column="time", sort_by=["n"])
    file = folder / "large.csv"
    with open(file, "w") as out:
        for piece in _lines(mib << 20):
            out.write(piece)
    report.bytes_up = file.stat().st_size
    patient = {"BLOCKSTORE_QUERY_TIME_LIMIT": "1h", "BLOCKSTORE_JOBS_TIME_LIMIT": "1h"}
    with (
        GatewayProcess(f"{folder}/lake?durable=false", folder, "gateway", **patient) as gateway,
        bs.Client(gateway.url, timeout_s=600, world=world) as client,
    ):
        report.idle_kib = gateway.memory_kib()
        seen: list[object] = []
        with Peak(gateway) as peak:
            job = client.upload("t", file).wait(
                progress=lambda told: seen.append(told["progress"]["bytes"])
            )
        report.peak_up_kib, report.rows = peak.kib, int(job.told["written"]["rows"])
        report.progress_up = len({*seen})
        file.unlink()
        seen.clear()
        down = folder / "down.csv"
        with Peak(gateway) as peak:
            client.download(
                "t", down, version=2, progress=lambda told: seen.append(told.get("fetched"))
            )
        report.peak_down_kib, report.bytes_down = peak.kib, down.stat().st_size
        report.progress_down = len({*seen})
        with open(down, "rb") as back:
            report.rows_down = sum(1 for _ in back) - 1
    return report


def _lines(size: int) -> Iterator[str]:
    yield "time,n,s\n"
    made = row = 0
    while made < size:
        piece = "".join(
            f"2026-01-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z,{n},a text of some "
            f"length {n * 2654435761 % 2**32}\n"
            for n in range(row, row + 20_000)
        )
        row += 20_000
        made += len(piece)
        yield piece


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), asked.mib)
    print(
        f"up {report.bytes_up >> 20} MiB, {report.rows:,} rows, memory {report.idle_kib >> 10} "
        "MiB at rest and at most "
        f"{report.peak_up_kib >> 10} MiB; down {report.bytes_down >> 20} MiB, "
        f"{report.rows_down:,} rows, at most "
        f"{report.peak_down_kib >> 10} MiB; progress reported {report.progress_up} and "
        f"{report.progress_down} times"
    )
    return 0 if report.rows == report.rows_down else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
