"""What statements call of the compactor, on one table: ``CALL compact`` and ``CALL expire``.

Rules:
- A statement is a version or nothing, so both need a table with an index.
- Merges take their memory and their folder from the environment, as the compactor's process does,
  or from the gateway that runs the statement, and claim no role. Retention claims the role
  ``compactor``, as by hand (``by_hand.py``).
- What was left out or failed is an error, though the rest was done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from blockstore.compactor.by_hand import retain_once
from blockstore.compactor.config import load_config
from blockstore.compactor.run.once import compact_once
from blockstore.errors import Conflict, Corrupt, Invalid
from blockstore.format.properties import FOREVER_S
from blockstore.table import Table


def compact(
    table: Table,
    memory_bytes: int | None = None,
    work_dir: Path | None = None,
    merged: Callable[[int], None] | None = None,
) -> int | None:
    """Merge until there is nothing left to merge, for a statement; return the version after it, or
    None if nothing was merged.

    Args:
        table: The table.
        memory_bytes: What one merge may take; by default what the environment says.
        work_dir: For what does not fit; by default what the environment says.
        merged: Receives the rows of each merge that was committed; what it raises ends the run, and
            what was merged by then stays.

    Raises Invalid for a table without an index, and Corrupt where damaged blocks were left out.
    """
    _need_index(table, "compact --once")
    settings = load_config(None).settings
    settings = replace(
        settings,
        memory_bytes=memory_bytes or settings.memory_bytes,
        work_dir=work_dir or settings.work_dir,
    )
    watch = None if merged is None else (lambda result: merged(result.rows))
    report = compact_once(table, settings, watch=watch)
    if report.left_out:
        ulid, why = next(iter(report.left_out.items()))
        raise Corrupt(
            f"{len(report.left_out)} blocks of {table.url} were left out of merges, as block "
            f"{ulid}: {why}; the others were merged: run blockstore verify"
        )
    return report.version if report.done else None


def expire(table: Table) -> int | None:
    """Expire what is older than the table's retention, for a statement; return the version that did
    it, or None if nothing was old enough.

    Raises Invalid for a table without an index, or one that keeps everything, and Conflict where a
    part of it failed.
    """
    _need_index(table, "retention")
    properties = table.definition.properties
    identity = table.definition.identity
    forever = identity is None or properties.kept_history_s(identity) == FOREVER_S
    if properties.retention_s is None and forever:
        raise Invalid(
            f"the table at {table.url} keeps everything: it has no retention; set one, as "
            "ALTER TABLE t SET (retention = '90d')"
        )
    report = retain_once(table)
    if report.failed:
        ulid, why = next(iter(report.failed.items()))
        raise Conflict(f"{len(report.failed)} blocks did not expire, as block {ulid}: {why}")
    return report.version


def _need_index(table: Table, verb: str) -> None:
    if not table.indexed:
        raise Invalid(
            f"the table at {table.url} has no index, so no version can say what was done: run "
            f"blockstore {verb}"
        )
