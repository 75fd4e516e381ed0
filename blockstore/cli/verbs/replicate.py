"""``blockstore replicate``: the same table at another place, once or as the source goes on."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.bucket import open_bucket
from blockstore.care.replicate import ReplicationReport, Replicator
from blockstore.cli.failure import complain
from blockstore.cli.following import follow, interval_s
from blockstore.cli.options import Json
from blockstore.cli.output import counted, say, show_json, size
from blockstore.cli.progress import progress
from blockstore.world import World


def replicate(
    source: str,
    target: str,
    /,
    *,
    once: Annotated[bool, Parameter(negative="")] = False,
    follow_: Annotated[bool, Parameter(name="--follow", negative="")] = False,
    interval: str = "1m",
    json: Json = False,
) -> int:
    """Copy a table, with its versions, to another place; run again, it copies what is new.

    Readers of the copy see an earlier version, whole, at every moment. Nobody else may write to the
    copy, and no compactor may clean it, as long as it is one. The exit code is 1 if damaged blocks
    were left out; they are named.

    Parameters
    ----------
    source
        The table.
    target
        An empty place, or the copy of an earlier run.
    once
        Copy what is there now, and end (the default).
    follow_
        Go on until interrupted.
    interval
        How often to look, with --follow.
    json
        Print JSON, one document a pass.
    """
    pause_s = interval_s(interval, "--interval") if follow_ and not once else None
    world = World.real()
    replicator = Replicator(open_bucket(source, world), open_bucket(target, world), world)

    def act() -> ReplicationReport:
        with progress(f"replicating to {target}", None, quiet=json) as advance:
            report = replicator.once(advance)
        _report(report, target, json=json, quietly=pause_s is not None)
        return report

    if pause_s is not None:
        return follow(world, pause_s, act)
    refused = len(act().refused)
    return (
        complain(f"{counted(refused, 'damaged block')} of {source} were left out, see above")
        if refused
        else 0
    )


def _report(report: ReplicationReport, target: str, *, json: bool, quietly: bool) -> None:
    """What a pass did; nothing where it did nothing and another follows."""
    if quietly and not (
        report.blocks or report.entries or report.marked or report.withdrawn or report.refused
    ):
        return
    if json:
        show_json(_json(report))
        return
    for refused in report.refused:
        say(f"left out {refused.ulid}: {refused.reason}")
    at = "no index" if report.version is None else f"at version {report.version}"
    parts = [f"{counted(report.blocks, 'block')} ({size(report.bytes)})"]
    if report.version is not None:
        parts.append(f"{report.entries} new {'entry' if report.entries == 1 else 'entries'}")
    if report.marked or report.withdrawn:
        parts.append(f"{counted(report.marked, 'mark')} placed, {report.withdrawn} withdrawn")
    if report.left_behind:
        parts.append(f"{counted(report.left_behind, 'block')} kept that the source has removed")
    say(f"copied {', '.join(parts)} to {target}: {at}")


def _json(report: ReplicationReport) -> dict[str, object]:
    return {
        "version": report.version,
        "entries": report.entries,
        "blocks": report.blocks,
        "bytes": report.bytes,
        "marked": report.marked,
        "withdrawn": report.withdrawn,
        "left_behind": report.left_behind,
        "refused": [{"ulid": refused.ulid, "reason": refused.reason} for refused in report.refused],
    }
