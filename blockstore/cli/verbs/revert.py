"""``blockstore revert``: undo writes by hiding their rows; no rows are moved."""

from __future__ import annotations

from blockstore.cli.options import DryRun, Json
from blockstore.cli.output import count, counted, say, show_json
from blockstore.operations.results import Reverted
from blockstore.table import open_any

_ULID = 26


def revert(
    url: str,
    /,
    *ulids: str,
    strict: bool = False,
    dry_run: DryRun = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Undo writes: hide all of their rows, in whatever blocks merges have put them.

    Reverting an overwrite does not bring back what it replaced; `restore` does. Where rows have an
    identity, the rows of the writes get their former state as a new version, and those that were
    changed since stay.

    Parameters
    ----------
    url
        The table.
    ulids
        The ULIDs of the writes, as `write` printed them, or as the column `_source` has them; where
        rows have an identity, also the number of a version.
    strict
        Change nothing if some of the rows were changed since.
    dry_run
        Show what would be hidden, with the rows of each write, and change nothing.
    message
        A comment for the history.
    json
        Print the result as JSON.
    """
    table = open_any(url)
    writes = [
        int(one) if one.isascii() and one.isdigit() and len(one) < _ULID else one for one in ulids
    ]
    done = table.revert(*writes, strict=strict, dry_run=dry_run, message=message)
    if json:
        show_json(
            {
                "version": done.version,
                "dry_run": done.dry_run,
                "hidden": dict(done.hidden),
                "rows": dict(done.rows),
                "removed": list(done.removed),
                "accounted": list(done.accounted),
                "already": list(done.already),
                "overwrites": list(done.overwrites),
                "undone": dict(done.undone),
                "left": dict(done.left),
                "left_rows": [list(row) for row in done.left_rows],
            }
        )
        return
    for line in _lines(done, table.url):
        say(line)


def _lines(done: Reverted, url: str) -> list[str]:
    verb = "would hide" if done.dry_run else "hid"
    lines = []
    for source, block in done.hidden.items():
        rows = f"{counted(done.rows[source], 'row')} of" if source in done.rows else "the rows of"
        lines.append(f"{verb} {rows} write {source}, in block {block}")
    verb_rows = "would undo" if done.dry_run else "undid"
    lines += [
        f"{verb_rows} {counted(rows, 'row')} of write {source}"
        for source, rows in done.undone.items()
    ]
    lines += [
        f"left {counted(rows, 'row')} of write {source}, changed since"
        for source, rows in done.left.items()
    ]
    lines += [f"{verb} write {source}, which was not published yet" for source in done.accounted]
    lines += [f"write {source} has no visible rows: nothing to do" for source in done.already]
    lines += [
        f"write {source} was an overwrite: the rows that it replaced do not come back; bring them "
        "back with blockstore restore"
        for source in done.overwrites
    ]
    if done.version is not None:
        lines.append(
            f"reverted {count(len(done.hidden) + len(done.accounted) + len(done.undone))} of "
            f"{url}: version "
            f"{done.version}"
        )
    elif not done.dry_run:
        lines.append(f"nothing of {url} was changed")
    return lines
