"""A driver on a cluster: one pass of the compactor, with a merge in pieces.

    python -m tests.spark.merging.on_cluster MASTER URL FOLDER HOST

Every task notes in FOLDER which process did it. The first one on HOST waits for the file ``go``,
its chunks written, and notes that in ``held``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import blockstore as bs
from blockstore.bucket.api import Bucket
from blockstore.compactor.merge import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.pieces import Pieces
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.spark.merging import SparkMergeEngine
from blockstore.world import World
from tests.support.cluster import QUICK, WORKERS

PATIENCE_S = 600.0
PIECES = 6


class HeldPieces(Pieces):
    """Notes what is done where, and waits on one host."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder = folder
        self._host = host

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        merged = super().merge(bucket, world, task, options)
        # An executor works in a folder of its worker's.
        held = f"/{self._host}/" in os.getcwd()
        (self._folder / f"{'held' if held else 'free'}-{os.getpid()}-{merged.written.rows}").touch()
        if held:
            (self._folder / "held").touch()
            end = time.monotonic() + PATIENCE_S
            while not (self._folder / "go").exists():
                assert time.monotonic() < end, "nothing was killed"
                time.sleep(0.05)
        return merged


def main(master: str, url: str, folder: Path, host: str) -> None:
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.executor.memory", "512m")
        .config("spark.executor.extraJavaOptions", QUICK)
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        # Tasks begin once both workers are there: the first could do all of them before.
        .config("spark.cores.max", str(len(WORKERS)))
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", f"{PATIENCE_S:.0f}s")
        .getOrCreate()
    )
    table = bs.open(url)
    size = sum(block.meta.bytes for block in table.log.state.blocks)
    engine = SparkMergeEngine(
        pieces=HeldPieces(folder, host), session=session, piece_bytes=-(-size // PIECES)
    )
    settings = Settings(tier_blocks=2, work_dir=folder / "work")
    compact_once(table, settings, engine=engine)
    print(json.dumps({"master": session.sparkContext.master}))
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
