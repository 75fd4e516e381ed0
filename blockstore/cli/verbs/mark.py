"""``blockstore mark``: a person's marks on a block, and its removal at once where nothing else
helps."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from blockstore.care.marks import Marked, Marker, MarkKind
from blockstore.care.marks.hiding import Wait
from blockstore.cli.failure import Interrupted, Usage, complain, remark
from blockstore.cli.opening import Property, open_with
from blockstore.cli.options import Json
from blockstore.cli.output import counted, iso, say, show_json, size
from blockstore.errors import MissingExtra
from blockstore.format.durations import format_duration
from blockstore.lifecycle.remove import Removed
from blockstore.table import Table

_COMPACTOR = "blockstore.compactor.by_hand"
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
    """Have a block deleted, or keep it from merges.

    A live block is taken out of the table by an entry; the compactor removes it once no version
    names it any more. Without an index the mark hides it: this command keeps it from merges first
    and on_wait, hides it, and looks for a while whether a merge that comes late shows its rows again.
    It says what it on_wait for; interrupted, it goes on when it is run again.

    Parameters
    ----------
    url
        The table.
    ulid
        The block.
    deletion
        Have it deleted, after the delays.
    no_compact
        Keep the compactor's merges away from it.
    details
        Why: kept in the mark.
    remove
        Take the mark away instead; it is honored at once.
    now
        With --deletion and --yes: remove it at once, without the delays. With an index this takes
        the compactor's role.
    yes
        Really.
    force
        Remove it now although a version that can be asked for names it, or another block would show
        its rows again.
    property_
        For a table without an index, `name=value`: its delays, such as delete_delay=48h, and
        consistency=eventual where listings lag.
    json
        Print JSON.
    """
    if deletion == no_compact:
        raise Usage("mark takes --deletion or --no-compact, expected one of them")
    if (now or force) and (remove or no_compact):
        raise Usage("--now and --force go with --deletion alone")
    if force and not now:
        raise Usage("--force goes with --now: a mark alone is never forced")
    ulid = ulid.upper()
    remove_now = _remover() if now else None
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
    """Have the block deleted, and tell of each wait.

    Raises Interrupted with what lies there by then.
    """
    waited: list[Wait] = []

    def tell(waiting: Wait) -> None:
        waited.append(waiting)
        whole = 60 if waiting.seconds > 60 else 1
        lasts = format_duration(math.ceil(waiting.seconds / whole) * whole)
        remark(f"{ulid}: {waiting.what}: waiting {lasts}, until {iso(waiting.until_ms)}")

    try:
        return marker.delete(ulid, details, tell)
    except KeyboardInterrupt:
        if not waited:
            raise
        raise Interrupted(
            f"{marker.marks_on(ulid)}; run the command again to go on, or with --remove, and with "
            "--no-compact --remove, to take "
            "back what lies there"
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
        return complain(f"block {ulid} is not removed: {hindered}; --force removes it all the same")
    if not yes:
        raise Usage(
            f"--now removes block {ulid} of {table.url} at once and for good, expected --yes as "
            "well: without --now it is "
            "marked, and the mark can be withdrawn"
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
    why = removed.failed.get(ulid) or removed.dropped.get(ulid) or "nobody said why"
    return complain(
        f"block {ulid} is marked and not removed: {why}; run it again, or leave it to the compactor"
    )


def _remover() -> Callable[..., Removed]:
    """Return the compactor's removal: only the compactor's code removes.

    It is loaded by name, because the command line imports no room. Raises MissingExtra.
    """
    try:
        found: Callable[..., Removed] = import_module(_COMPACTOR).remove_now
    except ImportError as error:
        raise MissingExtra(
            f"--now needs the compactor, which cannot be loaded ({error}): pip install "
            "'blocklake[compactor]', or mark the block without --now"
        ) from error
    return found
