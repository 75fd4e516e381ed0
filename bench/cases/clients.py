"""Many clients on one gateway by HTTP, while a writer appends and the compactor merges and removes
with short delays.

The load is the one that the tests run, and every answer is compared with the model at the version
that it names: a run with a failed query or a wrong answer has no figures.
"""

from __future__ import annotations

from bench.case import Case, Figures, Metric, Scale, Task

__all__ = ["CLIENTS"]


def measure(task: Task) -> Figures:
    """Queries a second, and what one takes; each counts and sums all rows."""
    from tests.end_to_end.gateway_load import run  # here: no other bench has it in its process

    report = run(task.directory, task.sizes["clients"], task.sizes["seconds"], task.seed)
    if wrong := [*report.failed, *report.wrong]:
        raise ValueError(
            f"{len(wrong)} of {report.queries} queries failed or answered wrong: {wrong[0]}"
        )
    return {
        "p50_ms": report.percentile_s(0.5) * 1_000,
        "p99_ms": report.percentile_s(0.99) * 1_000,
        "queries_per_s": report.queries / task.sizes["seconds"],
        "appends": report.appends,
        "merges": report.merges,
        "removed": report.removed,
        "memory_mib": report.peak_kib / 1024,
    }


CLIENTS = Case(
    name="clients",
    sentence="clients of one gateway count and sum a table by SQL while others append, merge and "
    "remove",
    peers=("ours-gateway",),
    metrics=(
        Metric(name="p50_ms", unit="ms", title="median", higher_is_better=False, digits=0),
        Metric(name="p99_ms", unit="ms", title="99th percentile", higher_is_better=False, digits=0),
        Metric(name="queries_per_s", unit="/s", title="queries", higher_is_better=True, digits=0),
        Metric(name="appends", unit="", title="appends", higher_is_better=True, digits=0),
        Metric(name="merges", unit="", title="merges", higher_is_better=True, digits=0),
        Metric(name="removed", unit="", title="blocks removed", higher_is_better=True, digits=0),
        Metric(
            name="memory_mib", unit="MiB", title="peak memory", higher_is_better=False, digits=0
        ),
    ),
    sizes={
        Scale.FULL: {"clients": 64, "seconds": 60},
        Scale.QUICK: {"clients": 16, "seconds": 15},
        Scale.TINY: {"clients": 2, "seconds": 3},
    },
    rounds=1,
    measure=measure,
    reference="ours-gateway",
)
