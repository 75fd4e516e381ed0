"""Merging 100 blocks on an S3 server with latency, against the same merge in a local folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench import inputs, peers
from bench.case import Case, Figures, Metric, Prepare, Task
from bench.cases.at_latency import MAIN, counts, every_scale, proxied
from bench.latency.proxy import Proxy
from bench.latency.session import Measured, Session
from bench.peers.api import Peer

__all__ = ["S3_MERGE"]


def prepare(task: Task) -> None:
    """``blocks`` sorted blocks over one key range, in a folder and on the server."""
    from bench.peers.s3 import place

    local = task.directory / "local"
    local.mkdir()
    handle = peers.load("ours").create(local, inputs.SCHEMA, ["id"])
    handle.ingest(inputs.overlapping(task.sizes["blocks"], task.sizes["rows"], task.seed))
    handle.close()
    place.upload(local / "table", task.directory)


def measure(task: Task) -> Figures:
    """The merge in the folder, at no delay, and at the main one; each of a copy of its own."""
    from bench.peers.s3 import place

    rows = task.sizes["blocks"] * task.sizes["rows"]
    figures: dict[str, float] = {}
    with proxied() as proxy:
        copied = task.directory / f"merged-{task.seed}"
        shutil.copytree(task.directory / "local", copied)
        local = _merge(peers.load("ours"), copied, proxy, rows)
        figures["local_per_s"] = rows / sum(local.seconds) / 1e6
        shutil.rmtree(copied)
        for delay in (0, MAIN):
            proxy.set(delay_ms=0)
            own = task.directory / f"merged-{task.seed}-{delay}"
            place.copy(task.directory, own)
            proxy.set(delay_ms=delay)
            found = _merge(task.peer, own, proxy, rows)
            figures[f"per_s_{delay}"] = rows / sum(found.seconds) / 1e6
            figures |= counts([found])
        figures["ratio"] = figures[f"per_s_{MAIN}"] / figures["local_per_s"]
    return figures


def _merge(peer: Peer, directory: Path, proxy: Proxy, rows: int) -> Measured:
    with Session.started(peer, directory, proxy) as session:
        session.do("open")
        found = session.do("merge")
        session.do("count", expected=rows)
    return found


S3_MERGE = Case(
    name="s3-merge",
    sentence="merge 100 blocks of 200,000 sorted rows on an S3 server with latency",
    peers=("ours-s3",),
    metrics=(
        Metric(
            name=f"per_s_{MAIN}",
            unit="M rows/s",
            title=f"merge at {MAIN} ms",
            higher_is_better=True,
            digits=2,
        ),
        Metric(name="per_s_0", unit="M rows/s", title="at 0 ms", higher_is_better=True, digits=2),
        Metric(
            name="local_per_s",
            unit="M rows/s",
            title="in a folder",
            higher_is_better=True,
            digits=2,
        ),
        Metric(name="ratio", unit="x", title="against a folder", higher_is_better=True, digits=2),
        Metric(name="requests", unit="", title="requests", higher_is_better=False, digits=0),
        Metric(name="depth", unit="", title="depth", higher_is_better=False, digits=0),
        Metric(name="down_mib", unit="MiB", title="received", higher_is_better=False, digits=0),
        Metric(name="up_mib", unit="MiB", title="sent", higher_is_better=False, digits=0),
        Metric(name="dollars", unit="$", title="per million", higher_is_better=False, digits=0),
        Metric(name="cpu_ms", unit="ms", title="CPU", higher_is_better=False, digits=0),
    ),
    sizes=every_scale(
        {"blocks": 100, "rows": 200_000},
        {"blocks": 10, "rows": 100_000},
        {"blocks": 3, "rows": 200},
    ),
    rounds=2,
    prepare=Prepare(name="s3-merge", run=prepare),
    measure=measure,
    reference="ours-s3",
    store=True,
)
