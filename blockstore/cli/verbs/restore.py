"""``blockstore restore``: go back to an earlier version, in one new version."""

from __future__ import annotations

from blockstore.cli.options import DryRun, Json
from blockstore.cli.output import counted, say, show_json
from blockstore.cli.values import moment_ms
from blockstore.table import open_any


def restore(
    url: str,
    /,
    *,
    version: int | None = None,
    tag: str | None = None,
    as_of: str | None = None,
    dry_run: DryRun = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Go back to an earlier version, in one new version.

    No rows are copied. The schema and the properties stay as they are now. Rows that others append
    meanwhile stay. Where rows have an identity, each row that is not as it was then gets a new
    version with its former state.

    Parameters
    ----------
    url
        The table.
    version
        The version's number.
    tag
        A tag of the version.
    as_of
        The version that was current at this moment: ISO 8601, or milliseconds since the epoch.
    dry_run
        Show what would come back and what would be removed, and change nothing.
    message
        A comment for the history.
    json
        Print the result as JSON.
    """
    table = open_any(url)
    moment = None if as_of is None else moment_ms(as_of, "--as-of")
    done = table.restore(version=version, tag=tag, as_of=moment, dry_run=dry_run, message=message)
    if json:
        show_json(
            {
                "to": done.to,
                "version": done.version,
                "dry_run": done.dry_run,
                "brought_back": list(done.brought_back),
                "removed": list(done.removed),
                "rows": done.rows,
                "rows_back": done.rows_back,
                "rows_changed": done.rows_changed,
                "rows_gone": done.rows_gone,
            }
        )
    elif done.nothing:
        say(f"{table.url} already has the rows of version {done.to}: nothing was changed")
    else:
        rows = (
            ""
            if done.rows is None
            else f", {'+' if done.rows >= 0 else ''}{counted(done.rows, 'row')}"
        )
        end = "nothing was changed yet" if done.dry_run else f"version {done.version}"
        verb = "would restore" if done.dry_run else "restored"
        if table.definition.identity is None:
            did = (
                f"{counted(len(done.brought_back), 'block')} back, {len(done.removed):,} out{rows}"
            )
        else:
            did = (
                f"{counted(done.rows_back, 'row')} back, {done.rows_changed:,} as before, "
                f"{done.rows_gone:,} out"
            )
        say(f"{verb} {table.url} to version {done.to}: {did}; {end}")
