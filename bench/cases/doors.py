"""All rows of a table through each door of a gateway, against DuckDB in this process on the same
files. The gateway is ``blockstore serve`` in a process of its own."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.request import Request, urlopen

import pyarrow as pa
from pyarrow import flight

from bench.case import Case, Figures, Metric, Prepare, Task
from bench.cases.query import PREPARE_NAME, SIZES, prepare
from bench.memory import highest_mib
from bench.peers.api import Unsupported
from blockstore.reader.flight.messages import packed

__all__ = ["DOORS"]

_TIMES = 3
_WAYS = ("duckdb", "flight", "http", "postgres_binary", "postgres_text")
_Taken: TypeAlias = tuple[float, float, int]
"""Seconds until the first rows, seconds in all, and what was counted: rows, or bytes as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gateway:
    process: int
    http: str
    flight: str
    postgres: str


def measure(task: Task) -> Figures:
    """Each way in turn, each warm once; another literal each time."""
    try:
        import adbc_driver_postgresql.dbapi as adbc
        import duckdb
        import psycopg
    except ModuleNotFoundError as error:  # in .venv, where only the harness itself is tested
        raise Unsupported(f"{error.name} is not there: run scripts/bench") from error
    rows = task.sizes["blocks"] * task.sizes["rows"]
    files = [str(path) for path in sorted(task.directory.glob("table/*/chunks/*.parquet"))]
    with (
        _serving(task.directory) as gateway,
        duckdb.connect() as local,
        flight.FlightClient(gateway.flight) as client,
        adbc.connect(gateway.postgres) as binary,
        psycopg.connect(gateway.postgres, autocommit=True) as text,
    ):
        ways: dict[str, Callable[[str], _Taken]] = {
            "duckdb": lambda sql: _by_duckdb(local, files, sql),
            "flight": lambda sql: _by_flight(client, sql),
            "http": lambda sql: _by_http(gateway.http, sql),
            "postgres_binary": lambda sql: _by_adbc(binary, sql),
            "postgres_text": lambda sql: _by_text(text, sql),
        }
        taken: dict[str, list[_Taken]] = {way: [] for way in _WAYS}
        first: dict[str, list[float]] = {way: [] for way in _WAYS}
        for turn in range(_TIMES + 1):
            sql = f'SELECT id, time, origin, value + {turn} AS value FROM "table"'
            for way, ask in ways.items():
                found, one = ask(sql), ask(f"{sql} LIMIT 1")
                _expect(way, found[2], rows)
                _expect(way, one[2], 1)
                if turn:
                    taken[way].append(found)
                    first[way].append(one[1])
        memory = highest_mib(gateway.process)
    seconds = {way: statistics.median(one[1] for one in taken[way]) for way in _WAYS}
    figures = {f"{way}_m": rows / seconds[way] / 1e6 for way in _WAYS}
    figures |= {f"{way}_one_ms": statistics.median(first[way]) * 1e3 for way in _WAYS[1:]}
    figures |= {
        f"{way}_first_ms": statistics.median(one[0] for one in taken[way]) * 1e3
        for way in _WAYS[1:]
    }
    figures |= {
        "flight_to_http": seconds["http"] / seconds["flight"],
        "flight_to_postgres": seconds["postgres_binary"] / seconds["flight"],
        "gateway_mib": memory,
    }
    return figures


@contextmanager
def _serving(lake: Path) -> Iterator[_Gateway]:
    command = [Path(sys.executable).parent / "blockstore", "serve", lake, "--no-auth"]
    command += ["--port", "0", "--flight-port", "0", "--postgres-port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as one:
        try:
            assert one.stdout is not None
            said = one.stdout.readline()
            found = [re.search(rf"{scheme}\S+", said) for scheme in ("http:", "grpc", "postgres")]
            http, grpc, postgres = (match[0] for match in found if match)
            time.sleep(2)  # the first query process starts
            yield _Gateway(process=one.pid, http=http, flight=grpc, postgres=postgres)
        finally:
            one.terminate()


def _by_duckdb(connection: Any, files: list[str], sql: str) -> _Taken:
    begun = time.perf_counter()
    asked = connection.execute(sql.replace('"table"', "read_parquet(?)"), [files])
    return _read(asked.to_arrow_reader(100_000), begun)


def _by_http(url: str, sql: str) -> _Taken:
    body = json.dumps({"sql": sql}).encode()
    request = Request(f"{url}/v1/query", body, {"Content-Type": "application/json"})
    begun = time.perf_counter()
    with urlopen(request) as response:
        return _read(pa.ipc.open_stream(response), begun)


def _by_flight(client: flight.FlightClient, sql: str) -> _Taken:
    begun = time.perf_counter()
    descriptor = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", query=sql))
    (end,) = client.get_flight_info(descriptor).endpoints
    return _read(client.do_get(end.ticket).to_reader(), begun)


def _by_adbc(connection: Any, sql: str) -> _Taken:
    """ADBC asks for a binary COPY, and makes Arrow of it."""
    begun = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return _read(cursor.fetch_record_batch(), begun)


def _by_text(connection: Any, sql: str) -> _Taken:
    """A COPY as text, whose lines are counted and not parsed."""
    begun, first, lines = time.perf_counter(), 0.0, 0
    with connection.cursor() as cursor, cursor.copy(f"COPY ({sql}) TO STDOUT") as stream:
        for data in stream:
            first = first or time.perf_counter() - begun
            lines += bytes(data).count(b"\n")
    return first, time.perf_counter() - begun, lines


def _read(batches: Iterable[pa.RecordBatch], begun: float) -> _Taken:
    first, rows = 0.0, 0
    for batch in batches:
        first = first or time.perf_counter() - begun
        rows += batch.num_rows
    return first, time.perf_counter() - begun, rows


def _expect(way: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{way}: {found} rows, expected {expected}")


def _rate(way: str, title: str) -> Metric:
    return Metric(name=f"{way}_m", unit="M rows/s", title=title, higher_is_better=True)


def _wait(way: str, title: str) -> Iterator[Metric]:
    for what, said in (("first", "first rows of all"), ("one", "one row")):
        yield Metric(
            name=f"{way}_{what}_ms", unit="ms", title=f"{said} {title}", higher_is_better=False
        )


DOORS = Case(
    name="doors",
    sentence="10 M rows of 4 columns through each door of a gateway, and by DuckDB in process on "
    "the same files; then one row",
    peers=("ours",),
    metrics=(
        _rate("duckdb", "DuckDB in process"),
        _rate("flight", "Flight SQL"),
        _rate("http", "HTTP, Arrow"),
        _rate("postgres_binary", "Postgres, binary"),
        _rate("postgres_text", "Postgres, text"),
        *_wait("flight", "by Flight SQL"),
        *_wait("http", "by HTTP"),
        *_wait("postgres_binary", "by Postgres, binary"),
        *_wait("postgres_text", "by Postgres, text"),
        Metric(
            name="flight_to_http",
            unit="x",
            title="Flight SQL against HTTP",
            higher_is_better=True,
            digits=2,
        ),
        Metric(
            name="flight_to_postgres",
            unit="x",
            title="Flight SQL against Postgres, binary",
            higher_is_better=True,
            digits=2,
        ),
        Metric(
            name="gateway_mib",
            unit="MiB",
            title="memory of the gateway",
            higher_is_better=False,
            digits=0,
        ),
    ),
    sizes=SIZES,
    rounds=2,
    prepare=Prepare(name=PREPARE_NAME, run=prepare),
    measure=measure,
    reference="ours",
)
