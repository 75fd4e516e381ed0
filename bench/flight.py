"""A result of many rows by Arrow Flight SQL and by HTTP as an Arrow stream, of one gateway.

``python -m bench.flight [ROWS] [ROUNDS]`` makes a lake in a temporary folder, serves it by
``blockstore serve`` in a process of its own, and reads the result by turns. It prints seconds and
MB/s of each, the time to the first row, and the memory of the gateway.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
from pyarrow import flight

import blockstore as bs
from blockstore.reader.flight.messages import packed

SQL = "SELECT id, amount, place, moment FROM sales"
FEW = "SELECT id, amount, place, moment FROM sales LIMIT 1"


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        _lake(f"{folder}/lake", rows)
        with _serving(f"{folder}/lake") as (process, http, grpc):
            client = flight.FlightClient(grpc)
            ways: dict[str, Callable[[str], tuple[float, float, int]]] = {
                "http": lambda sql: _by_http(http, sql),
                "flight": lambda sql: _by_flight(client, sql),
            }
            idle = _memory(process.pid)
            results: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ways}
            small: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(rounds + 1):
                for name, way in ways.items():
                    found, little = way(SQL), way(FEW)
                    if turn:  # the first one warms up
                        results[name].append(found)
                        small[name].append(little[1])
            for name, all_of_it in results.items():
                seconds = statistics.median(one[0] for one in all_of_it)
                size = all_of_it[0][2]
                print(
                    f"{name:7} {seconds:6.2f} s  {size / seconds / 1e6:7.0f} MB/s  first batch "
                    f"{statistics.median(one[1] for one in all_of_it) * 1e3:6.1f} ms  one row "
                    f"{statistics.median(small[name]) * 1e3:6.1f} ms"
                )
            ratios = [h[0] / f[0] for h, f in zip(results["http"], results["flight"], strict=True)]
            print(f"rate of flight over that of http: {statistics.median(ratios):.2f}")
            most = _memory(process.pid, "VmHWM")
            print(f"memory of the gateway: idle {idle:.0f} MiB, highest {most:.0f} MiB")


def _lake(url: str, rows: int) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("amount", pa.float64()),
            ("place", pa.string()),
            ("moment", pa.timestamp("us", "UTC")),
        ]
    )
    table = bs.create(f"{url}/sales?durable=false", schema=schema)
    dice = np.random.default_rng(1)
    places = np.array([f"place {n}" for n in range(1_000)])
    with table.writer() as writer:
        for start in range(0, rows, 1_000_000):
            count = min(1_000_000, rows - start)
            writer.write(
                pa.record_batch(
                    {
                        "id": pa.array(np.arange(start, start + count)),
                        "amount": pa.array(dice.random(count)),
                        "place": pa.array(places[dice.integers(0, 1_000, count)]),
                        "moment": pa.array(np.arange(start, start + count)).cast(
                            pa.timestamp("us", "UTC")
                        ),
                    },
                    schema=schema,
                )
            )


@contextmanager
def _serving(lake: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    words = [Path(sys.executable).parent / "blockstore", "serve", lake, "--no-auth"]
    words += ["--port", "0", "--flight-port", "0"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as one:
        try:
            assert one.stdout is not None
            *_, http, _, grpc = one.stdout.readline().split()
            time.sleep(2)  # the first query process starts
            yield one, http, grpc
        finally:
            one.terminate()


def _by_http(url: str, sql: str) -> tuple[float, float, int]:
    body = json.dumps({"sql": sql}).encode()
    request = Request(f"{url}/v1/query", body, {"Content-Type": "application/json"})
    begun = time.perf_counter()
    with urlopen(request) as response:
        return _read(pa.ipc.open_stream(response), begun)


def _by_flight(client: flight.FlightClient, sql: str) -> tuple[float, float, int]:
    begun = time.perf_counter()
    descriptor = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", query=sql))
    (end,) = client.get_flight_info(descriptor).endpoints
    return _read(client.do_get(end.ticket).to_reader(), begun)


def _read(reader: pa.RecordBatchReader, begun: float) -> tuple[float, float, int]:
    """The seconds of all rows, those until the first batch, and the bytes."""
    first, size = 0.0, 0
    for batch in reader:
        first = first or time.perf_counter() - begun
        size += batch.nbytes
    return time.perf_counter() - begun, first, size


def _memory(process: int, what: str = "VmRSS") -> float:
    """MiB of a process, without those that run its queries."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith(what))
    return int(found) / 1024


if __name__ == "__main__":
    main()
