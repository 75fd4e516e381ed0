"""The verb ``compact`` on the command line.

Imports no engine and no table at the top: its help needs none.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from blockstore.cli.failure import FAILED, Usage, complain, remark
from blockstore.cli.options import Json
from blockstore.cli.output import Column, count, counted, say, show_json, show_table, size, span
from blockstore.errors import BlockstoreError

if TYPE_CHECKING:
    from blockstore.compactor.config import ProcessConfig
    from blockstore.compactor.plan.jobs import PlannedJob
    from blockstore.compactor.plan.observe import Observation
    from blockstore.compactor.process.lake import LakeResults
    from blockstore.compactor.run.report import JobResult, Report
    from blockstore.table import Table

Flag: TypeAlias = Annotated[bool, Parameter(negative="")]

_KNOWN = (BlockstoreError, OSError, MemoryError)
"""Errors whose message is shown as it is; anything else is a bug."""

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
    url: str,
    /,
    *,
    plan: Flag = False,
    once: Flag = False,
    wait: Flag = False,
    config: Path | None = None,
    engine: str | None = None,
    shard: str | None = None,
    json: Json = False,
) -> int:
    """Merge small blocks into large ones; with --wait manage tables until stopped.

    Parameters
    ----------
    url
        A table, or a folder of tables.
    plan
        Change nothing; print every job with its inputs, its sizes and its reason.
    once
        Merge until there is nothing left to merge, then end.
    wait
        Run until stopped: merge, publish, mark, remove, and serve a page; tables are found as they
        appear.
    config
        A file such as configs/compactor.toml.
    engine
        What merges: local or spark; overrides the configuration.
    shard
        With --wait: merge only the streams of one shard, such as 0/4, and do nothing else.
    json
        One JSON document on standard output.
    """
    if plan + once + wait != 1:
        raise Usage(
            "compact needs exactly one of --plan (print what would be merged), --once (merge it) "
            "and --wait (keep running)"
        )
    if shard is not None and not wait:
        raise Usage("--shard needs --wait")
    from blockstore.compactor.config import load_config

    found = load_config(config)
    if engine is not None:
        found = replace(found, settings=replace(found.settings, engine=engine))
    if wait:
        return _wait(url, found, shard, json=json)
    return _plan(url, found, json=json) if plan else _once(url, found, json=json)


def _wait(url: str, config: ProcessConfig, shard: str | None, *, json: bool) -> int:
    from blockstore.compactor.merge.engines import engine_named
    from blockstore.compactor.plan.shards import parse_shard
    from blockstore.compactor.process.serve import serve

    if json:
        raise Usage(
            "--wait writes log lines (JSON where standard error is not a terminal); leave out "
            "--json"
        )
    one = None if shard is None else parse_shard(shard)
    serve(url, config, engine_named(config.settings.engine), shard=one)
    return 0


def _plan(url: str, config: ProcessConfig, *, json: bool) -> int:
    from blockstore.compactor.process.lake import each_table
    from blockstore.compactor.run.once import plan_table
    from blockstore.compactor.run.report import job_json

    looks: dict[str, Observation] = {}
    done = each_table(
        url,
        lambda name, table: plan_table(
            table, config.of_table(name), lambda seen: looks.update({name: seen})
        ),
        leave=config.leaves,
    )
    if json:
        documents = {one.name: [job_json(job) for job in one.result or ()] for one in done.tables}
        show_json(documents if done.lake else next(iter(documents.values()), []))
    else:
        for one in done.tables:
            if done.lake:
                say(f"{one.name}:")
            if one.result is not None:
                _show_plan(one.result)
                _show_versions(looks[one.name])
    return _failures(done, config)


def _once(url: str, config: ProcessConfig, *, json: bool) -> int:
    from blockstore.compactor.merge.engines import engine_named
    from blockstore.compactor.merge.workdir import check_outside_tables, clear_abandoned
    from blockstore.compactor.process.lake import each_table
    from blockstore.compactor.run.once import compact_once

    check_outside_tables(config.settings.work_dir)
    cleared = clear_abandoned(config.settings.work_dir)
    if cleared and not json:
        say(f"removed {counted(cleared, 'work folder')} of dead merges")
    merging = engine_named(config.settings.engine)
    watch = None if json else _say_result

    def run(name: str, table: Table) -> Report:
        return compact_once(table, config.of_table(name), engine=merging, watch=watch)

    done = each_table(url, run, leave=config.leaves)
    reports = {one.name: one.result for one in done.tables if one.result is not None}
    if json:
        documents = {name: report.to_json() for name, report in reports.items()}
        show_json(documents if done.lake else next(iter(documents.values()), {}))
    else:
        for name, report in reports.items():
            _show_report(report, of=f"{name}: " if done.lake else "")
    code = _failures(done, config)
    return FAILED if any(report.left_out for report in reports.values()) else code


def _failures(done: LakeResults[Any], config: ProcessConfig) -> int:
    """Report tables that failed, and tables that only the configuration names.

    Raises if one failed because of a bug of ours: --debug shows the traceback.
    """
    for name in config.unmatched({*(one.name for one in done.tables), *done.left}):
        remark(
            f'the configuration has [tables."{name}"], but there is no such table here: check its '
            "name"
        )
    failed = {one.name: one.error for one in done.tables if one.error is not None}
    if not failed:
        return 0
    bug = next((error for error in failed.values() if not isinstance(error, _KNOWN)), None)
    problems = "; ".join(f"{name}: {_problem(error)}" for name, error in failed.items())
    if bug is not None:
        raise BlockstoreError(
            f"{problems}; run again with --debug and report the traceback"
        ) from bug
    return complain(problems)


def _problem(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, _KNOWN)
        else f"internal error, {type(error).__name__}: {error}"
    )


def _show_plan(jobs: tuple[PlannedJob, ...]) -> None:
    if jobs:
        show_table(_PLANNED, [_planned(job) for job in jobs])
    blocks, total = sum(len(job.inputs) for job in jobs), sum(job.bytes for job in jobs)
    say(
        f"{counted(len(jobs), 'job')}, {counted(blocks, 'block')}, {size(total)} to read"
        if jobs
        else "nothing to merge"
    )


def _show_versions(seen: Observation) -> None:
    """Where rows have versions: how many of the rows that queries read they do not show."""
    if seen.definition.identity is not None:
        say(
            f"read amplification {seen.read_amplification:.2f}: queries read "
            f"{counted(seen.read_rows, 'row')}, {count(seen.hidden_rows)} of which are not current"
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
        f"{blocks} -> {result.block}: {counted(result.rows, 'row')}{dropped}, "
        f"{size(result.job.bytes)} -> "
        f"{size(result.bytes)}{rate}; {_visible(result.version)}"
    )
    for note in result.notes:
        say(f"  note: {note}")


def _show_report(report: Report, *, of: str) -> None:
    for ulid, problem in report.left_out.items():
        say(f"{of}left out: block {ulid}: {problem}")
    merged = sum(len(result.job.inputs) for result in report.done)
    say(
        f"{of}{counted(merged, 'block')} merged into {count(len(report.done))}; "
        f"{_visible(report.version)}"
        if report.done
        else f"{of}nothing was merged"
        + (f"; version {report.version}" if report.version is not None else "")
    )


def _visible(version: int | None) -> str:
    """How the result becomes visible."""
    return "visible once it has aged" if version is None else f"version {version}"
