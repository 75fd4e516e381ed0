"""Tables whose rows have an identity, and the compactor."""

from __future__ import annotations

from pathlib import Path

from blockstore.compactor.run.once import compact_once, plan_table
from blockstore.compactor.settings import Settings
from tests.blockstore.rows.lake import by_id, by_key, rows_of, seen


def test_rows_that_have_an_identity_are_left_alone(tmp_path: Path) -> None:
    keyed, numbered = by_key(), by_id()
    for n in range(3):
        keyed.upsert(rows_of({"id": n % 2, "name": "a", "n": n}))
        numbered.append(rows_of({"id": 0, "name": "a", "n": n}).select(["name", "n"]))
    for table in (keyed, numbered):
        table.world.clock.sleep(1e7)
        settings = Settings(tier_blocks=2, work_dir=tmp_path)
        before = seen(table, *table.definition.schema.names, "_version")
        assert plan_table(table, settings) == ()
        assert compact_once(table, settings).results == ()
        assert len(table.log.state.blocks) == 3
        assert seen(table, *table.definition.schema.names, "_version") == before
