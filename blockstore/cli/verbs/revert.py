"""``blockstore revert``: undo writes by hiding their rows; no rows are moved."""

from __future__ import annotations

from blockstore.cli.options import DryRun, Json
from blockstore.cli.output import count, counted, say, show_json
from blockstore.operations.results import Reverted
from blockstore.table import open_any


def revert(
    url: str,
    /,
    *ulids: str,
    dry_run: DryRun = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Undo writes: hide all of their rows, in whatever blocks merges have put them.

    Reverting an overwrite does not bring back what it replaced; `restore` does.

    Parameters
    ----------
    url
        The table.
    ulids
        The ULIDs of the writes, as `write` printed them, or as the column `_source` has them.
    dry_run
        Show what would be hidden, with the rows of each write, and change nothing.
    message
        A comment for the history.
    json
        Print the result as JSON.
    """
    table = open_any(url)
    done = table.revert(*ulids, dry_run=dry_run, message=message)
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
    lines += [f"{verb} write {source}, which was not published yet" for source in done.accounted]
    lines += [f"write {source} has no visible rows: nothing to do" for source in done.already]
    lines += [
        f"write {source} was an overwrite: the rows that it replaced do not come back; bring them "
        "back with blockstore restore"
        for source in done.overwrites
    ]
    if done.version is not None:
        lines.append(
            f"reverted {count(len(done.hidden) + len(done.accounted))} of {url}: version "
            f"{done.version}"
        )
    elif not done.dry_run:
        lines.append(f"nothing of {url} was changed")
    return lines
