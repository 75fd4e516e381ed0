"""Clients of mixed kinds at the three doors of one gateway: equal answers, tokens that end and are
revoked meanwhile, and an audit log that has each statement once, as its client saw it."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.reader.http.tokens import hashed
from blockstore.world import World
from tests.engines.test_iceberg import PYTHON
from tests.reader.doors.three import lines_of
from tests.reader.http.gateways import SCHEMA, rows_of

SECONDS = float(os.environ.get("BLOCKSTORE_DOORS_SECONDS", "6"))
CLIENTS = int(os.environ.get("BLOCKSTORE_DOORS_CLIENTS", "30"))
"""The long series has more of both. With 30 each kind of client has each token."""
ROWS = 20_000
NOTES = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())])
PROGRAM = Path(__file__).parent / "door_clients.py"
SHARES = ("reader", "writer", "limited", "ending", "revoked")
_SERVING = re.compile(r"serving .* at http://\S+:(\d+) and (grpc://\S+) and postgresql://\S+:(\d+)")
_MARK = re.compile(r"m\d+-\d+\.")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


@dataclass(frozen=True)
class Gateway:
    """``blockstore serve`` with a file, all doors open."""

    http: int
    flight: str
    postgres: int


def write_config(path: Path, log: Path, tokens: dict[str, str], until: dt.datetime) -> None:
    """The configuration, put in its place by a rename, with these tokens."""
    text = f'[audit]\nfile = "{log}"\n[jobs]\npoll = "200ms"\n'
    text += '[query]\nat_once = 8\nwaiting = 512\nwait = "2m"\nmemory = "1GiB"\nthreads = 1\n'
    for name, token in tokens.items():
        text += f'[tokens."{name}"]\nsha256 = "{hashed(token)}"\n'
        text += 'scopes = ["read", "write"]\n' if name == "writer" else ""
        text += "queries_at_once = 1\n" if name == "limited" else ""
        text += f'expires = "{until.isoformat()}"\n' if name == "ending" else ""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@contextmanager
def served(lake: str, folder: Path, config: Path) -> Iterator[Gateway]:
    """The gateway as a process of its own, until the end of the block."""
    out = folder / "gateway.log"
    words = ["serve", lake, "--config", str(config), "--port", "0", "--flight-port", "0"]
    with out.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", "from blockstore.cli.main import main; main()", *words,
             "--postgres-port", "0"],
            stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, "BLOCKSTORE_LOG_LEVEL": "warning"},
        )  # fmt: skip
    try:
        world = World.real()
        found = None
        while found is None:
            assert process.poll() is None, out.read_text()
            world.clock.sleep(0.1)
            found = _SERVING.search(out.read_text())
        yield Gateway(http=int(found[1]), flight=found[2], postgres=int(found[3]))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, out.read_text()


def test_many_clients_are_answered_alike_and_each_statement_is_audited_once(
    tmp_path: Path,
) -> None:
    lake, rows, log = f"{tmp_path}/lake", tmp_path / "rows.parquet", tmp_path / "audit.jsonl"
    table = bs.create(f"{lake}/flights?durable=false", schema=SCHEMA, time_column="time")
    table.append(rows_of(range(ROWS // 2)))
    table.append(rows_of(range(ROWS // 2, ROWS)))
    pq.write_table(rows_of(range(ROWS)), rows)
    notes = bs.create(f"{lake}/notes?durable=false", schema=NOTES, key=["id"])
    tokens = {name: f"bsk_{name}_0123456789" for name in SHARES}
    config, asked = tmp_path / "reader.toml", tmp_path / "asked.json"
    world = World.real()
    never = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    write_config(config, log, tokens, never)
    with served(f"{lake}?durable=false", tmp_path, config) as gateway:
        settings = {
            "http": gateway.http, "flight": gateway.flight, "postgres": gateway.postgres,
            "tokens": tokens, "shares": SHARES, "clients": CLIENTS, "seconds": SECONDS,
            "seed": 1, "rows": str(rows),
        }  # fmt: skip
        asked.write_text(json.dumps(settings))
        # Both ends come at a third of the time, whenever the clients have started.
        clients = subprocess.Popen(
            [PYTHON, PROGRAM, asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while not log.stat().st_size:
            assert clients.poll() is None, clients.communicate()[1][-3000:]
            world.clock.sleep(0.05)
        third = dt.datetime.fromtimestamp(world.clock.now_ms() / 1000 + SECONDS / 3, dt.UTC)
        write_config(config, log, tokens, third)
        world.clock.sleep(SECONDS / 3)
        del tokens["revoked"]
        write_config(config, log, tokens, third)
        out, err = clients.communicate(timeout=SECONDS + 200)
        assert clients.returncode == 0, err[-3000:]
    found = json.loads(out)["seen"]
    _judge(found, lines_of(log))
    inserted = sorted(one for client in found for one in client["inserted"])
    assert sorted(bs.open(notes.url).snapshot().scan().to_table()["id"].to_pylist()) == inserted


def _judge(seen: list[dict[str, Any]], lines: list[dict[str, Any]]) -> None:
    """What clients saw, and what the log says, statement by statement."""
    wrong = [one for client in seen for one in client["wrong"]]
    assert wrong == []
    expected = {mark: outcome for client in seen for mark, outcome in client["sent"].items()}
    statements = [one for one in lines if one["event"] == "statement"]
    marked: dict[str, list[str]] = {}
    unmarked: Counter[tuple[str, str]] = Counter()
    for one in statements:
        mark = _MARK.search(f"{one['statement'] or ''} {one['request_id']}")
        if mark is not None:
            marked.setdefault(mark[0], []).append(one["outcome"])
        elif one["outcome"] == "refused":
            unmarked[one["door"], one["token"]] += 1
    logged = {
        mark: outcomes for mark, outcomes in marked.items() if outcomes != [expected.get(mark)]
    }
    assert logged == {}, "a statement more than once, or with another outcome"
    assert sorted(expected.keys() - marked.keys()) == [], "statements without a line"
    for client in seen:
        if client["unmarked"]:
            door = "flight" if client["kind"] == "adbc" else "postgres"
            unmarked[door, client["token"]] -= client["unmarked"]
    # A driver may close a statement that was prepared just before its token ended.
    assert all(0 <= count <= len(seen) for count in unmarked.values()), unmarked
    outcomes = Counter(expected.values())
    assert all(outcomes[one] for one in ("ok", "error", "refused", "cancelled"))
    for name in ("ending", "revoked"):
        assert any(one["token"] == name and one["outcome"] == "ok" for one in statements)
        assert any(one["token"] == name and one["outcome"] == "refused" for one in statements)
    full = sum("its limit" in (one["error"] or "") for one in statements)
    assert full
    committed = [f"{one['committed']}" for one in statements if one["committed"]]
    assert len(set(committed)) == len(committed) == sum(len(one["inserted"]) for one in seen)
    over = sum(client["unmarked"] for client in seen)
    print(
        f"\n{len(seen)} clients, {len(expected) + over:,} statements: "
        + ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
        + f", {over:,} refused with tokens that were over; {full:,} beyond a token's limit; "
        f"{sum(client['rows'] for client in seen):,} rows as DuckDB has them; {len(committed):,} "
        "versions; every statement once in the audit log"
    )
