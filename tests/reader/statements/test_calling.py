"""``CALL compact`` and ``CALL expire``: what the compactor does, said as a statement."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.index.epochs import COMPACTOR, claim

FORMS = {
    "plain": "(time TIMESTAMP, n INTEGER) WITH (time_column = time)",
    "key": "(n INTEGER PRIMARY KEY, time TIMESTAMP) WITH (time_column = time)",
    "ids": "(time TIMESTAMP, n INTEGER) WITH (time_column = time, row_ids = true)",
}


def make(lake: Path, form: str, writes: int = 10) -> str:
    bs.sql(str(lake), f"CREATE TABLE t {FORMS[form]}")
    for number in range(writes):
        year = 2020 if number % 2 else 2030
        row = f"{number} AS n, TIMESTAMP '{year}-01-01' AS time"
        bs.sql(str(lake), f"INSERT INTO t BY NAME SELECT {row}")
    return str(lake)


def numbers(lake: str) -> list[int]:
    found = bs.sql(lake, "SELECT n FROM t ORDER BY n").to_arrow()["n"].to_pylist()
    return [int(one) for one in found]


@pytest.mark.parametrize("form", FORMS)
def test_compact_merges_until_nothing_is_left_to_merge(tmp_path: Path, form: str) -> None:
    lake = make(tmp_path, form)
    before = bs.open(f"{lake}/t")
    done = bs.sql(lake, "CALL compact('T')")
    table = bs.open(f"{lake}/t")
    assert done.version == table.log.state.version > before.log.state.version
    assert len(table.log.state.blocks) < len(before.log.state.blocks)
    assert numbers(lake) == list(range(10))
    assert str(bs.sql(lake, "CALL compact('t')")) == "CALL: nothing to change"


@pytest.mark.parametrize("form", FORMS)
def test_expire_removes_what_is_older_than_the_retention(tmp_path: Path, form: str) -> None:
    lake = make(tmp_path, form, writes=4)
    if form != "key":
        with pytest.raises(bs.Invalid, match=r"keeps everything.*SET \(retention = '90d'\)"):
            bs.sql(lake, "CALL expire('t')")
    bs.sql(lake, "ALTER TABLE t SET (retention = '90d')")
    table = bs.open(f"{lake}/t")
    held = claim(table.log, table.world, COMPACTOR)
    done = bs.sql(lake, "CALL expire('t')")
    assert numbers(lake) == [0, 2]
    assert (done.statement, done.version) == ("CALL", bs.open(f"{lake}/t").log.state.version)
    (last,) = bs.open(f"{lake}/t").log.entries(done.version, done.version)
    assert last.operation == "expire"
    assert bs.open(f"{lake}/t").log.state.epochs[COMPACTOR] != held.epoch
    assert bs.sql(lake, "CALL expire('t')").version is None


@pytest.mark.parametrize(
    "call", ["compact()", "compact('t', 1)", "expire('t', 'now')", "compact(1)", "expire(now())"]
)
def test_other_arguments_are_refused_with_the_form(tmp_path: Path, call: str) -> None:
    lake = make(tmp_path, "plain", writes=0)
    with pytest.raises(bs.Invalid):
        bs.sql(lake, f"CALL {call}")
    assert bs.open(f"{lake}/t").log.state.version == 1


def test_a_table_without_an_index_is_refused_with_the_verb(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t", schema=pa.schema([("n", pa.int64())]), index=False)
    table.append(pa.table({"n": [1]}))
    for call, verb in (("compact", "compact --once"), ("expire", "retention")):
        with pytest.raises(bs.Invalid, match=f"no index.*run blockstore {verb}"):
            bs.sql(str(tmp_path), f"CALL {call}('t')")
