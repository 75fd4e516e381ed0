"""Queries of some identities: what hides other rows is not read, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.predicate import parse
from blockstore.scan import resolve
from blockstore.scan.plan import ScanPlan
from tests.support.examples import few

KEYED = pa.schema([("k", pa.int64()), ("v", pa.int64())])
STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 4)), min_size=8, max_size=16
)
"""Whether rows are deleted, and which: blocks of ten keys, of a hundred in all."""
WHERE = st.tuples(st.integers(-5, 105), st.integers(0, 40))


def changed(url: str, steps: list[tuple[bool, int, int]], *, texts: bool) -> bs.Table:
    """A table whose rows 0 to 99 were changed by each step."""
    kind = pa.string() if texts else pa.int64()
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    table = bs.create(f"{url}?durable=false", schema=schema, key="k")

    def rows(keys: range, value: int) -> pa.Table:
        named = [f"{key:03}" for key in keys] if texts else list(keys)
        return pa.table([named, [value] * len(keys)], schema=schema)

    table.insert(rows(range(100), 0))
    for turn, (gone, first, apart) in enumerate(steps, 1):
        keys = range(10 * first, 10 * first + 10, apart)
        if gone:
            names = ", ".join(f"'{key:03}'" if texts else str(key) for key in keys)
            table.delete(f"k IN ({names})")
        else:
            table.upsert(rows(keys, turn))
    return table


def shown(rows: pa.Table) -> list[tuple[Any, int]]:
    return sorted(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


@settings(max_examples=few(60), deadline=None)
@given(STEPS, st.lists(WHERE, min_size=3, max_size=6), st.booleans())
def test_a_range_of_keys_has_the_rows_that_a_scan_of_all_has_of_it(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[bool, int, int]],
    ranges: list[tuple[int, int]],
    texts: bool,
) -> None:
    """At every version, in any order, by one handle, which keeps what it finds."""
    table = changed(str(tmp_path_factory.mktemp("t") / "t"), steps, texts=texts)
    latest = table.log.state.version  # a delete of rows that are gone makes none
    versions = [one for one in (latest, 3, latest - 2, 5) if 2 <= one <= latest]
    expected = {
        version: shown(bs.open(table.bucket.url).snapshot(version=version).scan().to_table())
        for version in versions
    }
    for low, length in ranges:
        for version in versions:
            ends = [low, low + length]
            if texts:
                first, last = (f"{max(0, min(999, end)):03}" for end in ends)
                where = f"k BETWEEN '{first}' AND '{last}'"
            else:
                first, last = ends
                where = f"k BETWEEN {first} AND {last}"
            found = shown(table.snapshot(version=version).scan(where=where).to_table())
            assert found == [row for row in expected[version] if first <= row[0] <= last]


def test_only_what_may_hide_rows_that_are_asked_for_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bs.create(f"{tmp_path}/t?durable=false", schema=KEYED, key="k")
    table.insert(pa.table([np.arange(1000), np.zeros(1000, np.int64)], schema=KEYED))
    for turn in range(40):
        keys = np.arange(25 * turn, 25 * turn + 25)
        table.upsert(pa.table([keys, keys], schema=KEYED))
    read: list[str] = []
    inner = resolve.columns_reader

    def noted(plan: ScanPlan, reads: Any) -> Any:
        columns = inner(plan, reads)

        def counted(chunks: Any, names: Any) -> Any:
            read.extend(chunk.key for chunk in chunks)
            return columns(chunks, names)

        return counted

    monkeypatch.setattr(resolve, "columns_reader", noted)

    def reads(where: str | None, expected: int) -> int:
        read.clear()
        again = bs.open(table.bucket.url).snapshot()
        assert again.scan(where=where).to_table().num_rows == expected
        return len(set(read))

    assert reads("k BETWEEN 500 AND 549 AND v >= 0", 50) <= 4
    assert reads("k >= 980", 20) <= 3
    assert reads(None, 1000) == 41
    assert reads("k > 100", 899) == 41, "what is needed is most of all: all is kept for others"


def test_the_range_is_that_of_the_condition(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t?durable=false", schema=KEYED, key="k")
    table.insert(pa.table([[1], [2]], schema=KEYED))

    def asked(where: str) -> object:
        plan = table.snapshot().scan(where=where).plan
        assert plan.predicate == parse(where, plan.columns.all)
        return resolve.identities_asked(plan)

    assert asked("k > 4 AND k < 9 AND v = 100") == (4, 9)
    assert asked("k = 4 OR k = 9 OR (k = 6 AND v = 1)") == (4, 9)
    assert asked("k = 4 OR v = 9") == (None, None)
    assert asked("NOT (k = 4)") == (None, None)
