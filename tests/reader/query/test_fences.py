"""What a query sees of a restricted table is what it would see of a table with nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.errors import Corrupt, Invalid
from blockstore.predicate import parse
from blockstore.reader.cache import ChunkCache
from blockstore.reader.errors import Restricted
from blockstore.reader.query import Engine
from blockstore.reader.query.fences import fence_of
from blockstore.reader.query.sql import fenced as module
from blockstore.reader.query.sql.fenced import fenced
from blockstore.reader.query.sql.reading import Named
from blockstore.reader.tables.policies import Policies, Policy, without
from blockstore.world import World
from tests.blockstore.predicate.conditions import SCHEMA, conditions, quoted, tables
from tests.reader.query.remotes import Twins, make
from tests.support.examples import few

QUERIES = (
    "SELECT * FROM tt",
    "SELECT count(*) FROM tt",
    "SELECT count(*), count({0}), min({0}), max({0}) FROM tt",
    "SELECT {0} FROM tt WHERE {where}",
    "SELECT {0}, {1} FROM tt WHERE {where} OR {1} IS NULL",
    "SELECT * FROM tt WHERE NOT ({where})",
    "SELECT {0}, count(*) FROM tt GROUP BY ALL",
    "SELECT count(*) FROM tt a JOIN tt b ON a.{0} IS NOT DISTINCT FROM b.{0}",
    "SELECT a.{0} FROM tt a LEFT JOIN tt b ON a.{1} = b.{1} AND b.{0} IS NULL",
    "SELECT {0} FROM tt WHERE {1} IN (SELECT {1} FROM tt WHERE {where})",
    "SELECT {0} FROM (SELECT * FROM tt WHERE {where}) ORDER BY {1} NULLS FIRST, {0} LIMIT 2",
    "WITH x AS (SELECT {0} FROM tt) SELECT * FROM x UNION SELECT {0} FROM tt",
    "SELECT row_number() OVER (ORDER BY {0}) FROM tt",
    "SELECT (SELECT count(*) FROM tt WHERE {where}), (SELECT max({0}) FROM tt)",
    "SELECT COLUMNS(*) FROM tt LIMIT 1",
    "DESCRIBE tt",
    "SUMMARIZE tt",
    "SELECT tt FROM tt",
    "SELECT * EXCLUDE ({0}) FROM tt",
    "SELECT {hidden} FROM tt",
    "SELECT count(*) FROM tt WHERE {hidden} IS NULL",
    "SELECT _row_id FROM tt",
)


@settings(max_examples=few(40))
@given(
    rows=tables(),
    text=conditions(),
    where=conditions(),
    columns=st.lists(st.sampled_from(SCHEMA.names), min_size=2, max_size=8, unique=True),
    hides=st.booleans(),
    split=st.integers(0, 6),
)
def test_a_restricted_table_is_one_of_its_rows_and_columns_alone(
    rows: pa.Table, text: str, where: str, columns: list[str], hides: bool, split: int
) -> None:
    try:
        wanted = parse(text, SCHEMA)
    except Invalid:
        return
    seen = [name for name in SCHEMA.names if name in columns]
    others = [name for name in SCHEMA.names if name not in columns]
    policy = Policy(
        name="p",
        tables=frozenset({"TT"}),
        rows=text,
        columns=None if hides else frozenset(columns),
        hide=frozenset(others) if hides else frozenset(),
    )
    kept = pa.Table.from_batches([wanted.filtered(one) for one in rows.to_batches()], SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        whole = bs.create(f"{folder}/t?durable=false", schema=SCHEMA)
        for part in (rows.slice(0, split), rows.slice(split)):
            if part.num_rows:
                whole.append(part)
        alone = bs.create(f"{folder}/alone?durable=false", schema=kept.select(seen).schema)
        if kept.num_rows:
            alone.append(kept.select(seen))
        with Engine({"tt": whole.snapshot()}) as mine, Engine({"tt": alone.snapshot()}) as plain:
            for form in QUERIES:
                sql = form.format(
                    quoted(seen[0]), quoted(seen[1]), where=where, hidden=quoted(others[0])
                )
                assert _said(mine, sql, policy) == _said(plain, sql, None), sql


def _said(engine: Engine, sql: str, policy: Policy | None) -> object:
    """The rows, whatever their order; or that there is an error."""
    policies = None if policy is None else Policies(user="x", policies=(policy,))
    allowed = None if policy is None else without(None, (policy,))
    if "_row_id" in sql and policy is None:
        return "an error"
    try:
        with engine.run(sql, allowed=allowed, policies=policies) as answer:
            found = answer.reader.read_all()
    except Invalid:
        return "an error"
    # DuckDB takes a least value from a file's statistics, where Parquet writes -0.0 for 0.0.
    return found.schema.names, sorted(repr(row).replace("-0.0", "0.0") for row in found.to_pylist())


def test_the_parts_of_a_query_that_cannot_fail_are_inside_of_the_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(module, "fenced", lambda *given: made.append(fenced(*given)) or made[-1])
    table = bs.create(f"{tmp_path}/t?durable=false", schema=COLUMNS)
    table.append(pa.table({"a": [1, 2, 3], "b": ["1", "2", "x"], "B2": ["y", "y", "z"]}))
    policy = Policy(name="p", tables=frozenset({"t"}), rows="B2 = 'y'", hide=frozenset({"B2"}))
    sql = "SELECT a FROM t WHERE a >= 2 AND CAST(b AS INT) > 0 AND b IN ('2', '3')"
    with (
        Engine({"t": table.snapshot()}) as engine,
        engine.run(
            sql,
            allowed=without(None, (policy,)),
            policies=Policies(user="x", policies=(policy,)),
        ) as answer,
    ):
        assert answer.reader.read_all().to_pydict() == {"a": [2]}
    (view,) = made
    for inside in ('"a" >=', '"b" IN', '"B2" ='):
        assert inside in view
    assert "CAST(b" not in view
    assert "error" not in view


COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("B2", pa.string())])


def _fence(policy: Policy) -> Any:
    return fence_of("t", COLUMNS, (policy,), "ann")


def test_a_fence_without_policies_is_closed() -> None:
    with pytest.raises(Restricted):
        fence_of("t", COLUMNS, (), "ann")


def test_columns_are_found_regardless_of_case_and_missing_ones_are_not_shown() -> None:
    policy = Policy(name="p", tables=frozenset({"t"}), columns=frozenset({"B", "gone"}))
    assert _fence(policy).columns.names == ["b"]
    hide = Policy(name="p", tables=frozenset({"t"}), hide=frozenset({"b2"}))
    assert _fence(hide).columns.names == ["a", "b"]
    with pytest.raises(Restricted, match="does not fit"):
        _fence(replace(hide, hide=frozenset({"gone"})))
    with pytest.raises(Restricted, match="show no column"):
        _fence(replace(policy, columns=frozenset({"gone"})))


def test_a_condition_reads_its_own_columns() -> None:
    fence = _fence(Policy(name="p", tables=frozenset({"t"}), rows="B2 = current_user AND a > 1"))
    assert fence.reads(None) is None
    assert fence.reads(Named(frozenset({"b"}))) == Named(frozenset({"b", "b2", "a"}))


def test_a_renamed_column_closes_the_table(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t?durable=false", schema=COLUMNS)
    table.append(pa.table({"a": [1], "b": ["x"], "B2": ["y"]}))
    policy = Policy(name="p", tables=frozenset({"t"}), hide=frozenset({"b"}))
    policies, allowed = Policies(user="x", policies=(policy,)), without(None, (policy,))
    with (
        Engine({"t": table.snapshot()}) as engine,
        engine.run("FROM t", allowed=allowed, policies=policies) as answer,
    ):
        assert answer.schema.names == ["a", "B2"]
        assert answer.policies == {"t": ("p",)}
        assert (answer.plans, answer.read.chunks) == ({}, 0)
    table.alter(rename={"b": "other"})
    with (
        Engine({"t": table.snapshot()}) as engine,
        pytest.raises(Restricted, match="does not fit"),
    ):
        engine.run("FROM t", allowed=allowed, policies=policies)


def test_a_damaged_file_says_nothing_of_its_rows(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t?durable=false", schema=COLUMNS)
    table.append(pa.table({"a": [1], "b": ["x"], "B2": ["y"]}))
    (chunk,) = tmp_path.rglob("*.parquet")
    chunk.write_bytes(chunk.read_bytes()[:-30] + b"\0" * 30)
    policy = Policy(name="p", tables=frozenset({"t"}), rows="a > 0")
    with (
        Engine({"t": table.snapshot()}) as engine,
        pytest.raises(Corrupt, match="whose log says which"),
    ):
        engine.run(
            "FROM t",
            allowed=without(None, (policy,)),
            policies=Policies(user="x", policies=(policy,)),
        ).reader.read_all()


# Tables of remote stores: only what a query reads is fetched, and what its fence reads


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    return make(tmp_path_factory.mktemp("twins") / "t")


@pytest.fixture
def both(twins: Twins, tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    cache = ChunkCache(tmp_path / "cache", World.real())
    with Engine({"t": twins.local}) as near, Engine({"t": twins.remote()}, cache=cache) as far:
        yield near, far


@pytest.mark.parametrize(
    "rows", ["few = 'kind 3'", "id < 40 OR id > 329000", "k IN (3, 5)", "v > 0.5"]
)
def test_a_remote_table_has_the_rows_of_a_local_one(both: tuple[Engine, Engine], rows: str) -> None:
    policy = Policy(name="p", tables=frozenset({"t"}), rows=rows, hide=frozenset({"w", "k"}))
    for sql in (
        "SELECT count(*) FROM t",
        "SELECT sum(id), count(few), max(v) FROM t",
        "SELECT s FROM t WHERE id = 5",
        "SELECT id FROM t WHERE id BETWEEN 30 AND 45",
        "SELECT min(s) FROM t WHERE id > 329900",
        "SELECT sum(a.id) FROM t a JOIN t b USING (id) WHERE a.id < 100",
        "SELECT w FROM t",
    ):
        near, far = (_said(engine, sql, policy) for engine in both)
        assert near == far, sql
