"""``blockstore mark``: place or withdraw a mark on a block, or remove the block at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from blockstore.care.marks import Marked, Marker, MarkKind
from blockstore.care.marks.hiding import Wait
from blockstore.cli.failure import Interrupted, Usage, complain, remark
from blockstore.cli.opening import Property, open_with
from blockstore.cli.options import Json
from blockstore.cli.output import counted, iso, say, show_json, size
from blockstore.extras import load
from blockstore.format.durations import format_duration
from blockstore.lifecycle.remove import Removed
from blockstore.table import Table

Flag: TypeAlias = Annotated[bool, Parameter(negative="")]


def mark(
    url: str,
    ulid: str,
    /,
    *,
    deletion: Flag = False,
    no_compact: Flag = False,
    details: str = "",
    remove: Flag = False,
    now: Flag = False,
    yes: Flag = False,
    force: Flag = False,
    property_: Property = (),
    json: Json = False,
) -> int:
    """Mark a block: delete it, or keep it out of merges.

    With an index, --deletion takes a live block out of the table with a new version; the compactor
    removes it when no version needs it any more. Without an index the mark hides the block. The
    command then first keeps the block out of merges and waits, hides it, and watches for a while
    whether a late merge shows its rows again. It says what it waits for. If it is interrupted, run
    it again: it continues.

    Parameters
    ----------
    url
        The table.
    ulid
        The block.
    deletion
        Delete the block, after the delays.
    no_compact
        Keep the block out of merges.
    details
        A reason, stored in the mark.
    remove
        Withdraw the mark. This takes effect at once.
    now
        With --deletion and --yes: remove the block at once, without the delays. With an index this
        takes over the compactor's role; a running compactor stops and claims it again.
    yes
        Confirm --now.
    force
        With --now: remove the block although a kept version names it, or another block would show
        its rows again.
    property_
        For a table without an index: its delays, `name=value`, such as delete_delay=48h, and
        consistency=eventual where listings lag.
    json
        Print JSON.
    """
    if deletion == no_compact:
        raise Usage("give either --deletion or --no-compact")
    if (now or force) and (remove or no_compact):
        raise Usage("--now and --force can only be used with --deletion")
    if force and not now:
        raise Usage("--force can only be used with --now: a mark needs no force")
    ulid = ulid.upper()
    remove_now: Callable[..., Removed] | None = None
    if now:
        # Only the compactor removes; the command line imports no room.
        remove_now = load("blockstore.compactor.by_hand", "remove_now", "--now")
    table = open_with(url, property_)
    marker = Marker(
        bucket=table.bucket,
        world=table.world,
        log=table.log_or_none,
        properties=table.definition.properties,
        catalog=table.catalog,
    )
    if remove_now is not None:
        return _remove_now(
            table, marker, ulid, details, remove_now, yes=yes, force=force, json=json
        )
    kind = MarkKind.DELETION if deletion else MarkKind.NO_COMPACT
    if remove:
        done = marker.withdraw(ulid, kind)
    elif deletion:
        done = _delete(marker, ulid, details)
    else:
        done = marker.keep_from_merges(ulid, details)
    _show(done, json=json)
    return 0


def _delete(marker: Marker, ulid: str, details: str) -> Marked:
    """Have the block deleted, and report each wait.

    Raises Interrupted with the marks that are placed by then.
    """
    waited: list[Wait] = []

    def report(waiting: Wait) -> None:
        waited.append(waiting)
        whole = 60 if waiting.seconds > 60 else 1
        lasts = format_duration(math.ceil(waiting.seconds / whole) * whole)
        remark(f"{ulid}: {waiting.what}: waiting {lasts}, until {iso(waiting.until_ms)}")

    try:
        return marker.delete(ulid, details, report)
    except KeyboardInterrupt:
        if not waited:
            raise
        raise Interrupted(
            f"{marker.marks_on(ulid)}; run the command again to continue, or run it with --remove "
            "and with --no-compact --remove to withdraw both marks"
        ) from None


def _show(done: Marked, *, json: bool) -> None:
    if json:
        show_json(
            {
                "ulid": done.ulid,
                "kind": str(done.kind),
                "changed": done.changed,
                "version": done.version,
                "told": done.summary,
            }
        )
    else:
        say(f"{done.ulid}: {done.summary}")


def _remove_now(
    table: Table,
    marker: Marker,
    ulid: str,
    details: str,
    remove_now: Callable[..., Removed],
    *,
    yes: bool,
    force: bool,
    json: bool,
) -> int:
    hindered = marker.hindrance(ulid)
    if hindered is not None and not force:
        return complain(f"block {ulid} is not removed: {hindered}; --force removes it anyway")
    if not yes:
        raise Usage(
            f"--now removes block {ulid} of {table.url} at once and permanently: add --yes to "
            "confirm; without --now the block is marked, and the mark can be withdrawn"
        )
    if table.indexed and ulid in table.log.poll().blocks:
        marker.delete(ulid, details)
    removed = remove_now(table, ulid, details, force=force)
    if json:
        show_json(
            {
                "ulid": ulid,
                "removed": ulid in removed.blocks,
                "objects": removed.objects,
                "bytes": removed.bytes,
                "problem": removed.failed.get(ulid) or removed.dropped.get(ulid),
            }
        )
    elif ulid in removed.blocks:
        say(f"{ulid}: removed, {counted(removed.objects, 'object')}, {size(removed.bytes)}")
    if ulid in removed.blocks:
        return 0
    why = removed.failed.get(ulid) or removed.dropped.get(ulid) or "no reason was given"
    return complain(
        f"block {ulid} is marked but not removed: {why}; run it again, or leave it to the compactor"
    )
