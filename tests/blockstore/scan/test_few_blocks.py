"""A few blocks are read one by one, many by columns: the results are the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.scan import snapshot as module
from blockstore.table import Table


@pytest.fixture
def table(tmp_path: object) -> Table:
    """Three blocks with labels, one of them taken out again."""
    made = bs.create(f"{tmp_path}/t?durable=false", schema=pa.schema([("id", pa.int64())]))
    for place, day in enumerate(("mon", "tue", "wed")):
        made.append(
            pa.table({"id": list(range(place + 1))}), labels={"day": day, f"of_{day}": "yes"}
        )
    made.revert(made.snapshot().snapshot.blocks.ulids()[0])
    return made


@pytest.mark.parametrize("few", [64, 0])
def test_few_and_many_answer_the_same(
    table: Table, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    found = table.snapshot().snapshot
    assert found.count() == 5
    assert found.label_names == {"day", "of_tue", "of_wed"}
