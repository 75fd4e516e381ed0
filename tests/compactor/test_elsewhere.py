"""A pass of merges done elsewhere (Spark), which end one after the other, is no process that hangs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from blockstore.bucket import Bucket
from blockstore.clock import ManualClock
from blockstore.world import World
from compactor.merge import Merged, MergeOptions, MergeTask
from compactor.merge.local import LocalEngine
from tests.compactor.tended import Tended


def test_a_process_whose_merges_are_done_elsewhere_one_after_the_other_is_healthy(tmp_path: Path) -> None:
    lake = Tended(tmp_path)
    clock = lake.world.clock
    assert isinstance(clock, ManualClock)
    told: list[str] = []

    class Elsewhere:
        def merge_all(
            self, bucket: Bucket, world: World, tasks: Sequence[MergeTask], options: MergeOptions
        ) -> Iterator[tuple[int, Merged]]:
            for place, task in enumerate(tasks):
                clock.advance(1500)
                told.extend(
                    one for one in process.status().unhealthy + process.status().not_ready if "no byte" in one
                )
                # Not through the process's bucket, so that it sees no byte of them.
                yield place, LocalEngine().merge(lake.place("a"), world, task, options)

    process = lake.process(engine=Elsewhere())  # type: ignore[arg-type]
    lake.create("a")
    for number in range(6):
        for one in "xy":
            lake.append("a", f"{one}{number}", labels={"s": str(number)})
    process.round()
    lake.check()
    assert len(lake.live("a")) == 6
    assert told == []
