"""Writes the index of the golden table of format version 1: run once, by hand, after ``make_v1``.

    python -m tests.golden.make_v1_index

Its output is kept for ever and never made again. The index creates the table, appends a block with
a job and one that was uploaded again (whose source must stand in the entry), merges both, adds a
block whose 1,001 sources stand in its own file, hides a source, tags a version, claims a role,
raises horizon and floor, and has a checkpoint at version 4.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path

from blockstore.bucket.local import LocalBucket
from blockstore.format.definition import Definition
from blockstore.format.meta import load_meta
from blockstore.index.added import AddedBlock
from blockstore.index.change import Append, Change, ClaimEpoch, Draft
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.log import create
from blockstore.index.state import State
from blockstore.names import BOUNDARY, is_ulid
from blockstore.world import World

HERE = Path(__file__).parent


@dataclass(kw_only=True)
class Planned(Change):
    """A change whose draft is known."""

    operation: Operation
    commit: str
    plan: Draft

    def draft(self, state: State) -> Draft:
        return self.plan


def main() -> None:
    """Write the golden index, unless it is there."""
    if (HERE / "v1" / BOUNDARY).exists():
        raise SystemExit("the golden index exists: golden bytes are never written again")
    platform.node = lambda: "golden"
    world = World.manual(seed=2)
    bucket = LocalBucket(HERE / "v1", world.clock, durable=False)
    definition = Definition.from_json(json.loads((HERE / "definition_v1.json").read_text()))
    metas = [
        load_meta(bucket, path.name)
        for path in sorted((HERE / "v1").iterdir())
        if is_ulid(path.name)
    ]
    first, second, merged, many = sorted(metas, key=lambda meta: (meta.level, meta.revision))
    log = create(bucket, world, definition)

    def commit(change: Change) -> None:
        world.clock.sleep(1)
        log.commit(change)

    def planned(operation: Operation, draft: Draft) -> None:
        commit(Planned(operation=operation, commit=world.ids.ulid(), plan=draft))

    commit(
        Append(commit=world.ids.ulid(), blocks=(first,), job=first.job, message="the first load")
    )
    commit(Append(commit=world.ids.ulid(), blocks=(second,)))
    planned(
        Operation.COMPACT,
        Draft(add=(AddedBlock(meta=merged),), remove=(first.ulid, second.ulid), read_version=3),
    )
    write_checkpoint(bucket, log.state)
    planned(Operation.REWRITE, Draft(add=(AddedBlock(meta=many),), parameters={"why": "adopted"}))
    planned(Operation.REVERT, Draft(excepts={merged.ulid: first.sources}))
    planned(Operation.TAG, Draft(tags={"before": 4}))
    commit(ClaimEpoch(commit=world.ids.ulid(), claims="compactor"))
    low = "01HF0000000000000000000000"
    planned(
        Operation.HORIZON, Draft(horizon=low, floor=low, account=("01HE0000000000000000000000",))
    )


if __name__ == "__main__":
    main()
