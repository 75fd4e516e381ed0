"""``blockstore replicate``: copy a table to another place, once or continuously."""

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
    """Copy a table, with its versions, to another place. Run it again to copy what is new.

    At every moment readers of the copy see a complete earlier version of the table. As long as it
    is a copy, no other program may write to it, and no compactor may run on it. The exit code is 1
    if damaged blocks were left out; they are listed.

    Parameters
    ----------
    source
        The URL of the table.
    target
        The URL of an empty place, or of the copy of an earlier run.
    once
        Copy once and end (the default).
    follow_
        Continue to copy until interrupted.
    interval
        The pause between two passes, with --follow.
    json
        Print JSON: one document for each pass.
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
        complain(f"{counted(refused, 'damaged block')} of {source} left out, see above")
        if refused
        else 0
    )


def _report(report: ReplicationReport, target: str, *, json: bool, quietly: bool) -> None:
    """Print what a pass did; with ``quietly`` nothing if it did nothing."""
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
        parts.append(f"{counted(report.left_behind, 'block')} kept although removed at the source")
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
