"""The verb ``materialize``: totals in a table of their own, brought up to date by each run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.cli.verbs import materialize
from blockstore.index import idle
from blockstore.table import create, open
from blockstore.world import World
from tests.blockstore.cli.conftest import Command

SCHEMA = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("n", pa.int64())])
WORDS = ("--by", "shop", "--sum", "n", "--min", "n")


def test_each_run_brings_the_totals_up_to_the_newest_version(
    blockstore: Command, lake: str
) -> None:
    table = create(f"{lake}/sales", schema=SCHEMA, key="id")
    table.upsert(pa.table({"id": [1, 2], "shop": ["a", "b"], "n": [3, 4]}, SCHEMA))
    urls = (f"{lake}/sales", f"{lake}/totals")
    first = blockstore("materialize", *urls, *WORDS).out
    assert first == f"{lake}/totals has the totals of version 2: 2 groups counted, as version 2\n"
    table.delete_rows([1])
    done = blockstore("materialize", *urls, *WORDS, "--json").json
    assert done == {"source": 3, "version": 3, "groups": 1, "complete": False}
    assert "nothing was to be changed" in blockstore("materialize", *urls, *WORDS).out
    rows = open(f"{lake}/totals").snapshot().scan().to_table().to_pylist()
    assert rows == [{"shop": "b", "rows": 1, "sum_n": 4, "min_n": 4}]
    other = blockstore("materialize", *urls, "--by", "shop", code=1).err
    assert "not a table for these totals" in other
    assert (
        "is no column" in blockstore("materialize", urls[0], f"{lake}/x", "--by", "y", code=1).err
    )


def test_a_follower_that_waits_notices_that_its_source_was_made_again(
    blockstore: Command, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = create(f"{lake}/sales", schema=SCHEMA, key="id")
    source.upsert(pa.table({"id": [1], "shop": ["a"], "n": [3]}, SCHEMA))

    def follow(world: World, pause_s: float, act: Callable[[], None]) -> int:
        act()
        Path(f"{lake}/sales").rename(f"{lake}/before")
        create(f"{lake}/sales", schema=SCHEMA, key="id")
        act()
        return 0

    monkeypatch.setattr(idle, "LOOK_S", 0.0)
    monkeypatch.setattr(materialize, "follow", follow)
    words = ("materialize", f"{lake}/sales", f"{lake}/totals", *WORDS, "--follow")
    assert "was replaced" in blockstore(*words, code=1).err
