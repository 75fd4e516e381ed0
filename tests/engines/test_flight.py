"""Drivers that others wrote do over Flight SQL what their users do first: ADBC by its DB-API,
pandas and Polars, and bulk ingest."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from tests.engines.test_iceberg import PYTHON
from tests.reader.flight.doors import Opened, opened
from tests.reader.http.gateways import WRITE, make_lake, rows_of, settings
from tests.repo.fenced import blocks

MILLION = 1_000_000
LOADED = 20_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("drivers")
    url = make_lake(folder)
    lake = url.partition("?")[0]
    bs.open(f"{lake}/flights?durable=false").append(rows_of(range(1_000, MILLION)))
    items = pa.schema([("sku", pa.string()), ("n", pa.int64())])
    bs.create(f"{lake}/items?durable=false", schema=items, key="sku")
    asked = settings(url, folder)
    with opened(asked) as one:
        yield one


def found_by(client: str, door: Opened, rows: int) -> dict[str, Any]:
    program = Path(__file__).parent / "flight_clients.py"
    done = subprocess.run(
        [PYTHON, program, client, door.door.url, WRITE, str(rows)],
        capture_output=True, text=True, timeout=280, env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_adbc_by_its_dbapi(door: Opened) -> None:
    found = found_by("dbapi", door, MILLION)
    assert {"flights", "items", "salaries"} <= set(found["tables"])
    assert found["schema"] == "time: timestamp[us, tz=UTC]\nn: int64\ns: string"
    assert found["parameters"] == [[0, "row 0"], [2, "row 2"]]
    assert found["million"] == [MILLION, MILLION * (MILLION - 1) // 2]
    assert found["after"] == [[MILLION]]
    assert found["version"] == [[500]]
    assert found["password"] == [[1]]
    kind, said = found["missing"]
    assert kind == "ProgrammingError"
    assert "NOT_FOUND: [FlightSQL] there is no table flight: did you mean flights?" in said
    kind, said = found["wrong"]
    assert kind == "ProgrammingError"
    assert "INVALID_ARGUMENT" in said
    assert "at line 1, column 1" in said
    assert found["cancelled"][0] == "OperationalError"
    assert "CANCELLED" in found["cancelled"][1]
    assert found["cancelled_s"] < 20
    for name in ("none", "unknown"):
        assert "UNAUTHENTICATED: [FlightSQL] the token is missing or unknown" in found[name][1]
    assert found["count"] == [[1]]
    assert "exist already" in found["again"][1]
    assert found["items"] == [["a", 5]]
    assert door.idle()


def test_adbc_ingests(door: Opened) -> None:
    found = found_by("ingest", door, LOADED)
    once, total = LOADED, LOADED * (LOADED - 1) // 2
    assert found["create"] == [once, once, total]
    assert found["append"] == [once, 2 * once, 2 * total]
    assert found["replace"] == [once, once, total]
    assert found["create_append"] == [once, 2 * once, 2 * total]
    assert "there is already a table loaded" in found["create again"][1]
    assert "NOT_FOUND: [FlightSQL] there is no table nowhere" in found["no table"][1]
    assert "expected int64" in found["odd"][1]
    assert found["left"] == [2 * once, 2 * total]
    assert found["upsert"] == [once, once]
    url = door.http.gateway.settings.tables.urls[0].partition("?")[0]
    assert bs.open(f"{url}/loaded").log.poll().version == 5, "created, then one each"


def test_pandas_and_polars_read_and_write(door: Opened) -> None:
    found = found_by("frames", door, 0)
    three = {"n": [0, 1, 2], "s": ["row 0", "row 1", "row 2"]}
    assert found["pandas"] == found["polars"] == three
    assert found["pandas again"] == [
        [1, 1.5, "a", "2026-01-01T00:00:00.000"],
        [2, None, None, "2026-01-02T00:00:00.000"],
    ]
    assert found["polars again"] == {"x": [1, 2], "c": ["a", "b"]}


def test_the_programs_of_the_guide_run_as_they_are_printed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    flights = pa.table({"origin": ["JFK", "LGA"], "day": ["2024-01-02", "2023-12-31"]})
    bs.create(f"{lake}/flights?durable=false", schema=flights.schema).append(flights)
    carriers = pa.schema([("carrier", pa.string()), ("name", pa.string())])
    bs.create(f"{lake}/carriers?durable=false", schema=carriers)
    programs = [one.text for one in blocks("docs/guides/flight.md") if one.language == "python"]
    with opened(settings(f"{lake}?durable=false", tmp_path)) as one:
        program = "\n".join(programs).replace("grpc://127.0.0.1:31337", one.door.url)
        done = subprocess.run(
            [PYTHON, "-c", program.replace("bsk_…", WRITE)],
            capture_output=True, text=True, timeout=120, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["(2,)", "(1,)"]
        found = one.client.query("SELECT count(*) AS n FROM carriers, readings")
        assert found.to_pydict() == {"n": [6]}
