"""The compactor's verb on the command line, found by the entry point ``blockstore.verbs``.

This module imports no engine and no table: the command's overview loads it for its sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from blockstore.cli.failure import FAILED, Usage
from blockstore.cli.options import Json
from blockstore.cli.output import Column, count, counted, say, show_json, show_table, size, span

if TYPE_CHECKING:
    from compactor.plan import PlannedJob
    from compactor.report import JobResult, Report

__all__ = ["LEAN", "compact"]

Flag: TypeAlias = Annotated[bool, Parameter(negative="")]

LEAN = frozenset({"compact"})
"""The verbs of this module that use no pandas."""

_PLANNED = (
    Column("time", "time"),
    Column("labels", "labels", fold=True),
    Column("blocks", "blocks", right=True),
    Column("rows", "rows", right=True),
    Column("bytes", "bytes", right=True),
    Column("level", "to level", right=True),
    Column("reason", "reason", fold=True),
)


def compact(
    url: str, /, *, plan: Flag = False, once: Flag = False, config: Path | None = None, json: Json = False
) -> int:
    """Merge a table's small blocks into large ones.

    Parameters
    ----------
    url
        The table.
    plan
        Change nothing; print every job with its inputs, its sizes and its reason.
    once
        Merge until there is nothing left to merge, then end.
    config
        A file such as configs/compactor.toml.
    json
        One JSON document on standard output.
    """
    if plan == once:
        raise Usage(
            "compact takes --plan (print what would be merged) or --once (merge it), expected one of them"
        )
    from blockstore.table import open_any
    from compactor.config import load_config
    from compactor.once import compact_once, plan_table

    settings = load_config(config).settings
    table = open_any(url)
    if plan:
        _show_plan(plan_table(table, settings), json=json)
        return 0
    report = compact_once(table, settings, watch=None if json else _say_result)
    _show_report(report, json=json)
    return FAILED if report.left_out else 0


def _show_plan(jobs: tuple[PlannedJob, ...], *, json: bool) -> None:
    if json:
        from compactor.report import job_json

        show_json([job_json(job) for job in jobs])
        return
    if jobs:
        show_table(_PLANNED, [_planned(job) for job in jobs])
    blocks, total = sum(len(job.inputs) for job in jobs), sum(job.bytes for job in jobs)
    say(
        f"{counted(len(jobs), 'job')}, {counted(blocks, 'block')}, {size(total)} to read"
        if jobs
        else "nothing to merge"
    )


def _planned(job: PlannedJob) -> dict[str, str]:
    return {
        "time": span(job.min_time, job.max_time),
        "labels": ", ".join(f"{name}={value}" for name, value in job.stream.labels),
        "blocks": count(len(job.inputs)),
        "rows": count(job.rows),
        "bytes": size(job.bytes),
        "level": str(job.level),
        "reason": f"{job.reason}: {job.details}",
    }


def _say_result(result: JobResult) -> None:
    blocks = result.job.details
    if result.problem:
        say(f"{result.outcome}: {blocks}: {result.problem}")
        return
    rate = f" in {result.seconds:.1f} s"
    dropped = f", {counted(result.dropped_rows, 'row')} dropped" if result.dropped_rows else ""
    if result.block is None:
        say(f"{blocks} had no rows left{dropped}; {_visible(result.version)}")
        return
    say(
        f"{blocks} -> {result.block}: {counted(result.rows, 'row')}{dropped}, {size(result.job.bytes)} -> "
        f"{size(result.bytes)}{rate}; {_visible(result.version)}"
    )
    for note in result.notes:
        say(f"  note: {note}")


def _show_report(report: Report, *, json: bool) -> None:
    if json:
        show_json(report.to_json())
        return
    for ulid, problem in report.left_out.items():
        say(f"left out: block {ulid}: {problem}")
    merged = sum(len(result.job.inputs) for result in report.done)
    say(
        f"{counted(merged, 'block')} merged into {count(len(report.done))}; {_visible(report.version)}"
        if report.done
        else "nothing was merged" + (f"; version {report.version}" if report.version is not None else "")
    )


def _visible(version: int | None) -> str:
    """By what the result is visible."""
    return "visible once it has aged" if version is None else f"version {version}"
