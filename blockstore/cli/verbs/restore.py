"""``blockstore restore``: the rows of an earlier version again, in one new version."""

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
    """Show again what an earlier version did, in one new version.

    Nothing is copied. Schema and properties stay those of now; what others append meanwhile stays.

    Parameters
    ----------
    url
        The table.
    version
        The version's number.
    tag
        A tag of the version.
    as_of
        The last version at this moment: ISO 8601, or milliseconds since the epoch.
    dry_run
        Say what would come back and what would go, and change nothing.
    message
        What the history says about it.
    json
        Print the answer as JSON.
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
            }
        )
    elif done.nothing:
        say(f"{table.url} shows what version {done.to} did: nothing was changed")
    else:
        rows = (
            ""
            if done.rows is None
            else f", {'+' if done.rows >= 0 else ''}{counted(done.rows, 'row')}"
        )
        end = "nothing was changed yet" if done.dry_run else f"version {done.version}"
        verb = "would restore" if done.dry_run else "restored"
        say(
            f"{verb} {table.url} to version {done.to}: {counted(len(done.brought_back), 'block')} "
            "back, "
            f"{len(done.removed):,} out{rows}; {end}"
        )
