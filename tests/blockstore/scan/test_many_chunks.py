"""A plan for one pass over very many blocks has the chunks of any other plan, and holds few."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import pytest

from blockstore.format.block import ColumnStats
from blockstore.index import blocks as blocks_module
from blockstore.index import rows as rows_module
from blockstore.index.blocks import Blocks
from blockstore.scan import Snapshot, plan_scan
from blockstore.scan import plan as plan_module
from blockstore.scan.execute import count_each, count_rows, read_plan
from blockstore.scan.many_chunks import ManyChunks
from blockstore.scan.plan import plan_pass
from tests.blockstore.scan.tables import Lake, row
from tests.blockstore.scan.test_sieve import NUMBERS, live

KNOWN = {"n": ColumnStats(1, 2, 0)}


@pytest.fixture
def snapshot() -> Snapshot:
    """Blocks of none to three chunks; two of them are new, and one is hidden."""
    held = [live(number, [(KNOWN, 5)] * (number % 4)) for number in range(23)]
    hidden = replace(held[6], excepted=frozenset({held[6].ulid}))
    later = [live(number, [(KNOWN, 7)]) for number in (40, 41)]
    blocks = Blocks.of([*held[:6], hidden, *held[7:]]).changed([held[3].ulid], later)
    return Snapshot(definition=NUMBERS, blocks=blocks)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MANY", 3)
    monkeypatch.setattr(blocks_module, "KEPT", 2)
    monkeypatch.setattr(rows_module, "PIECE", 4)


def test_it_is_the_plan_that_holds_its_chunks(
    snapshot: Snapshot, request: pytest.FixtureRequest
) -> None:
    assert isinstance(plan_pass(snapshot).chunks, tuple)
    request.getfixturevalue("many")
    held = plan_scan(snapshot)
    assert isinstance(held.chunks, tuple)
    found = plan_pass(snapshot)
    assert isinstance(found.chunks, ManyChunks)
    assert tuple(found.chunks) == held.chunks
    assert tuple(found.chunks) == held.chunks, "a second pass"
    assert len(found.chunks) == len(held.chunks) > 20
    assert replace(found, chunks=held.chunks) == held
    assert (found.rows, found.bytes) == (held.rows, held.bytes)
    assert found.groups() == held.groups()
    places = range(-len(held.chunks), len(held.chunks))
    assert [found.chunks[place] for place in places] == [held.chunks[place] for place in places]
    assert found.chunks[3:-2:4] == held.chunks[3:-2:4]
    assert pickle.loads(pickle.dumps(found.chunks)) == held.chunks
    for beyond in (len(held.chunks), -len(held.chunks) - 1):
        with pytest.raises(IndexError):
            found.chunks[beyond]


@pytest.mark.usefixtures("many")
def test_few_blocks_are_made_at_once(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = rows_module._blocks
    monkeypatch.setattr(
        rows_module, "_blocks", lambda *rows: made.append(len(rows[0])) or make(*rows)
    )
    snapshot.blocks.rows()
    plan = plan_pass(snapshot)
    made.clear()
    chunks: Iterator[object] = iter(plan.chunks)
    next(chunks)
    assert sum(made) <= 4


@pytest.mark.usefixtures("many")
def test_a_plan_that_judges_chunks_holds_them(snapshot: Snapshot) -> None:
    assert isinstance(plan_pass(snapshot, where="n = 1").chunks, tuple)
    assert plan_pass(snapshot, where="n = 1") == plan_scan(snapshot, where="n = 1")


@pytest.mark.usefixtures("many")
def test_its_rows_are_read() -> None:
    lake = Lake()
    for number in range(6):
        lake.append([row(number, number), row(number, number + 10)], chunks=2)
    plan = plan_pass(lake.snapshot())
    assert isinstance(plan.chunks, ManyChunks)
    found = read_plan(lake.bucket, plan, lake.world).read_all()
    assert found["n"].to_pylist() == [n + more for n in range(6) for more in (0, 10)]
    assert count_rows(lake.bucket, plan, lake.world) == 12
    assert count_each(lake.bucket, plan, lake.world) == [1] * 12
