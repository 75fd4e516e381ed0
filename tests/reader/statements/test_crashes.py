"""A statement that dies at any write of its own leaves everything as it was, or is done; and the
same statement by a fresh process, with the same job, counts once."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

import blockstore as bs
from blockstore.errors import BlockstoreError
from blockstore.reader.query.engine import Engine
from blockstore.reader.query.source import Source
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.lake import Lake
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.transaction import Block, carry_out, grouped
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import FaultyBucket, Killed, crash_points
from tests.support.tally import tally

MADE = (
    "CREATE TABLE key (k BIGINT PRIMARY KEY, a INTEGER);"
    "CREATE TABLE ids (k BIGINT, a INTEGER) WITH (row_ids = true);"
    "CREATE TABLE plain (k BIGINT, a INTEGER);"
    "CREATE TABLE labelled (k BIGINT, a INTEGER) WITH (labels = 'site=x')"
)
STATEMENTS = {
    "key": "MERGE INTO key AS t USING (VALUES (1, 5), (9, 9)) AS s(k, a) ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET a = t.a + s.a WHEN NOT MATCHED THEN INSERT",
    "ids": "UPDATE ids SET a = a + 1 WHERE k < 2",
    "plain": "UPDATE plain SET a = a + 1 WHERE k < 2",
    "labelled": "UPDATE labelled SET a = a + 1 WHERE k < 2 OR k = 7",
}
TRANSACTIONS = {
    name: f"BEGIN; {STATEMENTS[name]}; INSERT INTO {name} VALUES (20, 20), (21, 21);"
    f"DELETE FROM {name} WHERE k IN (2, 20); UPDATE {name} SET a = a * 2 WHERE k > 1; COMMIT"
    for name in STATEMENTS
}


CALLS = {name: f"CALL restore('{name}', 1)" for name in STATEMENTS}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    bs.sql(_url(folder), MADE)
    for name in STATEMENTS:
        bs.sql(_url(folder), f"INSERT INTO {name} SELECT i, i FROM range(4) r(i)")
    bs.sql(_url(folder), "INSERT INTO labelled VALUES (6, 6, 'y'), (7, 7, 'y')")
    return folder


def _url(folder: Path) -> str:
    """Without fsync: a process dies here, and no machine."""
    return f"{folder}?durable=false"


def run(folder: Path, name: str, sql: str, **faults: Any) -> tuple[FaultyBucket, bool]:
    """Run a statement or transaction about a table in a process that may die; return its calls, and
    whether it said that it was done."""
    world = World.real()
    lake = Lake(_url(folder), world)
    bucket = FaultyBucket(lake.open(name).bucket)
    lake._open[name] = Table.open_bucket(bucket, world)
    bucket.calls.clear()
    for fault, number in faults.items():
        setattr(bucket, f"_{fault}", frozenset({number}) if fault == "lose_answer" else number)
    done = False
    engine = _engine()
    engine.source = lake
    session = Session(engine, lake)
    (step,) = grouped(session.parse(sql))
    doing = Doing(job=bs.Job("nightly", 1))
    try:
        if isinstance(step, Block):
            carry_out(session, step, doing)
        else:
            session.run(step, doing)
        done = True
    except (Killed, BlockstoreError):
        pass
    return bucket, done


@cache
def _engine() -> Engine:
    """The engine of all processes here, one after the other: it takes most of the time to start."""

    class Anywhere:
        """All folders for temporary files."""

        remote = False

        def folders(self) -> list[str]:
            return [tempfile.gettempdir()]

    return Engine(cast(Source, Anywhere()))


def rows(folder: Path, name: str) -> list[tuple[int, int]]:
    found = bs.open(str(folder / name)).snapshot().scan().to_table()
    return sorted(zip(found["k"].to_pylist(), found["a"].to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize(
    "sqls", [STATEMENTS, TRANSACTIONS, CALLS], ids=["statement", "transaction", "call"]
)
def test_all_or_nothing_at_every_write_and_once_after_a_retry(
    name: str, sqls: dict[str, str], made: Path, tmp_path: Path
) -> None:
    sql = sqls[name]
    whole = shutil.copytree(made, tmp_path / "whole")
    before = rows(whole, name)
    bucket, done = run(whole, name, sql)
    after = rows(whole, name)
    assert done
    assert after != before
    writes = [call for call in bucket.calls if call.writes]
    assert len(writes) >= 3, "a chunk, its meta.json, an entry; or two tags around an entry"
    for fault, call in crash_points(writes):
        # A transaction has many writes, and most are of blocks that no entry names.
        many = sqls is TRANSACTIONS or name == "labelled"
        if fault == "lose_answer" and many and call is not writes[-1]:
            continue
        tally("crash points")
        point = f"{name}: {fault} {call}"
        copy = shutil.copytree(made, tmp_path / "copy")
        _, said = run(copy, name, sql, **{fault: call.number})
        found = rows(copy, name)
        assert found in (before, after), point
        assert not said or found == after, point
        run(copy, name, sql)
        assert rows(copy, name) == after, point
        shutil.rmtree(copy)
