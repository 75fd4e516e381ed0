"""The verbs ``cleanup`` and ``retention`` on the command line.

Imports no engine and no table at the top: their help needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from blockstore.cli.failure import FAILED
from blockstore.cli.options import Json, Many
from blockstore.cli.output import counted, iso, say, show_json, size

if TYPE_CHECKING:
    from blockstore.compactor.clean.files import FilesCleaned
    from blockstore.compactor.clean.report import CleaningReport
    from blockstore.compactor.clean.retention import RetentionReport
    from blockstore.lifecycle.decide import Decision

Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
Property: TypeAlias = Annotated[Many, Parameter(name="--property", negative="")]


def cleanup(
    url: str, /, *, dry_run: Flag = False, property_: Property = (), json: Json = False
) -> int:
    """Publish aged blocks, mark blocks no longer needed, remove those marked long enough ago.

    Parameters
    ----------
    url
        The table. With an index this claims the compactor role: a running compactor is fenced, and
        claims it again.
    dry_run
        Change nothing; print what would be done, and why.
    property_
        For a table without an index, `name=value`: its delays, such as sync_delay=15m.
    json
        One JSON document on standard output.
    """
    from blockstore.cli.opening import open_with
    from blockstore.compactor.by_hand import clean_once
    from blockstore.compactor.clean.cleaner import plan_cleaning

    table = open_with(url, property_, dropped=True)
    cleaned = plan_cleaning(table) if dry_run else clean_once(table)
    if json:
        show_json(cleaned.to_json())
    else:
        _show_cleaned(cleaned)
    return FAILED if cleaned.failed or cleaned.files.failed else 0


def retention(
    url: str, /, *, dry_run: Flag = False, property_: Property = (), json: Json = False
) -> int:
    """Expire blocks whose rows are all older than the table's property retention.

    Parameters
    ----------
    url
        The table. With an index this claims the compactor role: a running compactor is fenced, and
        claims it again.
    dry_run
        Change nothing; print what would leave the table.
    property_
        For a table without an index, `name=value`: retention=90d, and its delays.
    json
        One JSON document on standard output.
    """
    from blockstore.cli.opening import open_with
    from blockstore.compactor.by_hand import retain_once
    from blockstore.compactor.clean.retention import plan_retention

    table = open_with(url, property_)
    retained = plan_retention(table) if dry_run else retain_once(table)
    if json:
        show_json(retained.to_json())
    else:
        _show_retained(retained)
    return FAILED if retained.failed else 0


def _show_cleaned(cleaned: CleaningReport) -> None:
    would = "would be " if cleaned.dry_run else ""
    for ulid in cleaned.discovered:
        say(f"{would}published: {ulid}")
    if cleaned.horizon is not None:
        say(f"horizon {would}raised to {cleaned.horizon}")
    if cleaned.floor is not None:
        say(f"floor {would}raised to {cleaned.floor}")
    _show_decisions(f"{would}marked", cleaned.marked)
    _show_decisions(f"{would}withdrawn", cleaned.withdrawn)
    _show_decisions(f"{would}removed", cleaned.removed)
    for title, named in (
        ("quarantined", cleaned.quarantined),
        ("waits", cleaned.waiting),
        ("kept", cleaned.kept),
        ("left to the next pass", cleaned.dropped),
        ("failed", cleaned.failed),
    ):
        _show_named(title, named)
    _show_files(cleaned.files, would)
    say(
        f"{counted(len(cleaned.marked), 'block')} {would}marked, "
        f"{counted(len(cleaned.removed), 'block')} {would}removed: "
        f"{counted(cleaned.objects, 'object')}, {size(cleaned.bytes)}"
        if cleaned.changed
        else "nothing to clean"
    )


def _show_files(files: FilesCleaned, would: str) -> None:
    for title, ids in (
        (f"{would}marked", files.marked),
        (f"mark {would}withdrawn", files.withdrawn),
        (f"{would}removed", files.removed),
        ("waits for the horizon", files.waiting),
    ):
        for file in ids:
            say(f"file {title}: {file}")
    _show_named("file failed", files.failed)
    if files.removed:
        say(f"{counted(len(files.removed), 'file')} {would}removed: {size(files.bytes)}")
    if files.undecided is not None:
        say(f"no file was marked or removed: {files.undecided}")


def _show_decisions(title: str, decisions: tuple[Decision, ...]) -> None:
    for one in decisions:
        say(f"{title}: {one.ulid} ({one.reason}): {one.why}")


def _show_named(title: str, named: Mapping[str, str]) -> None:
    for ulid, why in named.items():
        say(f"{title}: {ulid}: {why}")


def _show_retained(retained: RetentionReport) -> None:
    if retained.retention_s is None:
        say("the table keeps everything: it has no retention")
        return
    would = "would leave" if retained.dry_run else "left"
    for ulid in retained.blocks:
        say(f"{would}: {ulid}")
    _show_named("failed", retained.failed)
    version = "" if retained.version is None else f"; version {retained.version}"
    say(
        f"{counted(len(retained.blocks), 'block')} {would}: {counted(retained.rows, 'row')}, "
        f"{size(retained.bytes)}, all "
        f"before {iso(retained.before_ms)}{version}"
        if retained.blocks
        else f"nothing is older than {iso(retained.before_ms)}"
    )
