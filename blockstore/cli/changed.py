"""The output of the verbs that change rows: what they did, or would do."""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.cli.output import count, counted, size
from blockstore.operations.results import Changed

NOTHING_CHANGED = "nothing was changed"


def changed_json(changed: Changed) -> Mapping[str, object]:
    """Return the result as JSON."""
    return {
        "operation": changed.operation,
        "version": changed.version,
        "dry_run": changed.dry_run,
        "already": changed.already,
        "rows_added": changed.rows_added,
        "rows_removed": changed.rows_removed,
        "added": list(changed.added),
        "removed": list(changed.removed),
        "rewritten": dict(changed.rewritten),
        "accounted": list(changed.accounted),
        "bytes_added": changed.bytes_added,
        "bytes_removed": changed.bytes_removed,
    }


def summary(changed: Changed, url: str) -> str:
    """Return the result as one sentence."""
    if changed.already:
        at = "" if changed.version is None else f", in version {changed.version}"
        return f"this batch was written to {url} before{at}: {NOTHING_CHANGED}"
    if changed.nothing and changed.version is None and not _counts_rows(changed):
        return f"no row of {url} matches: {NOTHING_CHANGED}"
    end = f"{NOTHING_CHANGED} yet" if changed.dry_run else f"version {changed.version}"
    what = _blocks(changed)
    return f"{_rows(changed)} {url}: {what}; {end}" if what else f"{_rows(changed)} {url}; {end}"


def _counts_rows(changed: Changed) -> bool:
    return bool(changed.rows_added or changed.rows_removed)


def _rows(changed: Changed) -> str:
    gone = "rows" if changed.rows_removed is None else counted(changed.rows_removed, "row")
    if changed.operation == "delete":
        return f"would delete {gone} of" if changed.dry_run else f"deleted {gone} of"
    new = counted(changed.rows_added, "new row")
    return (
        f"would replace {gone} by {new} in" if changed.dry_run else f"replaced {gone} by {new} in"
    )


def _blocks(changed: Changed) -> str:
    """What becomes of blocks; empty where only changes of rows are added, and no block goes."""
    if changed.rows_removed and not (changed.removed or changed.rewritten):
        return ""
    parts = [
        f"{counted(len(changed.removed), 'block')} removed",
        f"{count(len(changed.rewritten))} rewritten",
        f"{size(changed.bytes_removed)} replaced",
    ]
    if changed.added:
        parts.append(f"block {changed.added[0]} added")
    if changed.accounted:
        parts.append(
            f"{counted(len(changed.accounted), 'unpublished write')} will never be visible"
        )
    return ", ".join(parts)
