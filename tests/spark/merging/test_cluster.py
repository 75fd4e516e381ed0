"""A merge in pieces on a standalone cluster, one of whose two workers is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.chunk_reader import read_chunk
from blockstore.names import object_key
from tests.repo.fenced import ROOT
from tests.support.cluster import WORKERS, kill_worker, standalone
from tests.support.spark_workers import workers_python

pytestmark = pytest.mark.slow
PATIENCE_S = 600.0
ROWS = 100_000


def environment() -> dict[str, str]:
    mine = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": WORKERS[0]}
    mine |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), workers_python())
    return {**os.environ, **mine}


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_the_pieces_of_a_killed_worker_are_done_again_and_no_row_comes_twice(
    tmp_path: Path,
) -> None:
    """Slow because it starts a cluster, and a driver on it."""
    schema = pa.schema([("k", pa.int64()), ("text", pa.string())])
    table = bs.create(f"{tmp_path}/table?durable=false", schema=schema, sort_by=["k"])
    draw = np.random.default_rng(3)
    for number in range(3):
        keys = np.sort(draw.integers(0, 1 << 40, ROWS))
        table.append(pa.table({"k": keys, "text": [f"{number}-{row}" for row in range(ROWS)]}))
    before = table.snapshot().scan(columns=["k", "text", "_source"]).to_table()
    notes, cluster = tmp_path / "notes", tmp_path / "cluster"
    notes.mkdir()
    cluster.mkdir()
    with standalone(cluster, memory="512m", environment=environment()) as master:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.merging.on_cluster",
             master, table.url, str(notes), WORKERS[1]],
            cwd=ROOT, env=environment(), text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not (notes / "held").exists():
                assert driver.poll() is None, driver.communicate()[1][-6000:]
                assert time.monotonic() < deadline, "no task came to the second worker"
                time.sleep(0.1)
            kill_worker(cluster, WORKERS[1])
            (notes / "go").touch()
            printed, errors = driver.communicate(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
    assert driver.returncode == 0, errors[-6000:]
    assert json.loads(printed.splitlines()[-1]) == {"master": master}

    newest = bs.open(table.url)
    (block,) = newest.log.state.blocks
    chunks = [
        read_chunk(newest.bucket, object_key(block.ulid, file.path), file)
        for file in block.meta.chunks
    ]
    rows = pa.concat_tables(chunks).select(before.schema.names).cast(before.schema)
    assert rows.equals(before.sort_by("k")), "row for row what one process writes"

    done = [note.name.split("-") for note in notes.glob("*-*")]
    free = [int(rows) for where, _, rows in done if where == "free"]
    assert sum(free) == 3 * ROWS, "the lost piece was done again"
    assert len(free) > 2
    assert [where for where, _, _ in done].count("held") == 1
    assert len({process for where, process, _ in done if where == "free"}) == 1, (
        "one Python process a core does one task after the other"
    )
    listed = {file.path for file in block.meta.files}
    written = set(Path(f"{tmp_path}/table/{block.ulid}/chunks").iterdir())
    assert len(written) == len(listed) + 1, "the chunk of the killed worker is debris"
