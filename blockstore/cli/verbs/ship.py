"""``blockstore ship``: upload finished blocks from a folder to a table, once or continuously."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.bucket import open_bucket
from blockstore.care.ship import ShippedBlock, Shipper, ShipReport
from blockstore.care.ship.build import folder_at
from blockstore.cli.failure import complain
from blockstore.cli.following import follow, interval_s
from blockstore.cli.options import Json
from blockstore.cli.output import count, counted, say, show_json, size
from blockstore.cli.progress import progress
from blockstore.world import World

_INTERVAL = "30s"


def ship(
    folder: str,
    url: str,
    /,
    *,
    once: Annotated[bool, Parameter(negative="")] = False,
    watch: str | None = None,
    follow_: Annotated[bool, Parameter(name="--follow", negative="")] = False,
    remove_shipped: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> int:
    """Upload finished blocks from a folder, each exactly once, the oldest first.

    Run it as often as you like: no row is counted twice. The exit code is 1 if a block was refused;
    it is listed, and the others are shipped. With --follow or --watch the command continues until
    it is interrupted.

    Parameters
    ----------
    folder
        The folder with finished blocks, made by build. What was shipped is recorded there, in
        blockstore.shipper.json.
    url
        The table, with an index or without. It must exist.
    once
        Ship once and end (the default).
    watch
        Ship again and again with this pause, such as 30s.
    follow_
        The same as --watch 30s.
    remove_shipped
        Delete a block from the folder when it is durable in the table.
    json
        Print JSON: one document for each pass.
    """
    pause_s = _pause_s(once, watch, follow_)
    world = World.real()
    shipper = Shipper(
        folder_at(folder, world), open_bucket(url, world), world, remove_shipped=remove_shipped
    )

    def act() -> ShipReport:
        with progress(f"shipping to {url}", shipper.waiting_bytes(), quiet=json) as advance:
            report = shipper.once(advance)
        _report(report, folder, url, json=json, quietly=pause_s is not None)
        return report

    if pause_s is not None:
        return follow(world, pause_s, act)
    refused = len(act().refused)
    return (
        complain(f"{counted(refused, 'block')} of {folder} not shipped or not shown, see above")
        if refused
        else 0
    )


def _pause_s(once: bool, watch: str | None, following: bool) -> float | None:
    if once or (watch is None and not following):
        return None
    return interval_s(watch or _INTERVAL, "--watch")


def _report(report: ShipReport, folder: str, url: str, *, json: bool, quietly: bool) -> None:
    """Print what a pass did; with ``quietly`` nothing if it did nothing."""
    if quietly and not (report.shipped or report.refused or report.removed):
        return
    if json:
        show_json(_json(report))
        return
    for block in report.shipped:
        say(f"shipped {block.ulid}: {_what(block)}")
    for refused in report.refused:
        say(f"{'late' if refused.late else 'refused'} {refused.ulid}: {refused.reason}")
    if report.removed:
        say(f"removed {counted(len(report.removed), 'shipped block')} from {folder}")
    waiting = (
        f", {counted(len(report.unfinished), 'directory')} unfinished" if report.unfinished else ""
    )
    rows = sum(block.rows for block in report.shipped if not block.already)
    say(f"{counted(len(report.shipped), 'block')}, {count(rows)} new rows, to {url}{waiting}")


def _what(block: ShippedBlock) -> str:
    if block.already:
        return "the table already has its rows"
    where = (
        ""
        if block.stored_ulid == block.ulid
        else f" as block {block.stored_ulid}, because its upload was refused"
    )
    seen = (
        "not published; readers will discover it by its age"
        if block.version is None
        else f"version {block.version}"
    )
    if block.late:
        seen = "uploaded, and not shown"
    return f"{counted(block.rows, 'row')}, {size(block.bytes)}{where}: {seen}"


def _json(report: ShipReport) -> dict[str, object]:
    return {
        "shipped": [
            {
                "ulid": block.ulid,
                "as": block.stored_ulid,
                "rows": block.rows,
                "bytes": block.bytes,
                "version": block.version,
                "already": block.already,
                "late": block.late,
            }
            for block in report.shipped
        ],
        "refused": [
            {"ulid": refused.ulid, "reason": refused.reason, "late": refused.late}
            for refused in report.refused
        ],
        "unfinished": list(report.unfinished),
        "removed": list(report.removed),
    }
