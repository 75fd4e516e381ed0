"""``blockstore verify``: check a table and report what is wrong."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

from cyclopts import Parameter

from blockstore.bucket import open_bucket
from blockstore.care.finding import Finding, Report, Severity
from blockstore.care.verify import Noted
from blockstore.care.verify import verify as look
from blockstore.cli.failure import Usage, complain
from blockstore.cli.opening import Property, delays
from blockstore.cli.options import Json
from blockstore.cli.output import Column, counted, say, show_json, show_table, size
from blockstore.cli.progress import progress
from blockstore.errors import Invalid
from blockstore.world import World

_COLUMNS = (
    Column("severity", ""),
    Column("check", "CHECK"),
    Column("object", "OBJECT", fold=True),
    Column("what", "FOUND", fold=True),
    Column("fix", "FIX", fold=True),
)


def verify(
    url: str,
    /,
    *,
    deep: Annotated[bool, Parameter(negative="")] = False,
    chain: str | None = None,
    property_: Property = (),
    json: Json = False,
) -> int:
    """Check a table: its listing, its blocks, its index. Nothing is changed.

    Each finding is printed with the command that fixes it. An error means lost or wrong rows, a
    warning needs a decision, a note needs nothing. The exit code is 1 if there are errors.

    Parameters
    ----------
    url
        The table.
    deep
        Also read every file: its hash, its rows and their order, its statistics and sources.
    chain
        `VERSION:DIGEST`, as an earlier verify printed it: check that the history still contains
        that version, unchanged.
    property_
        For a table without an index: its delays, `name=value`, such as sync_delay=15m.
    json
        Print JSON.
    """
    noted = None if chain is None else _noted(chain)
    world = World.real()
    bucket = open_bucket(url, world)
    with ExitStack() as stack:
        steps = []

        def start(total: float) -> None:
            bar = progress(f"verifying {bucket.url}", total, quiet=json, counted=not deep)
            steps.append(stack.enter_context(bar))

        report = look(
            bucket,
            world,
            deep=deep,
            noted=noted,
            properties=delays(property_),
            start=start,
            advance=lambda step: steps[0](step),
        )
    if json:
        show_json(report.to_json())
    else:
        _show(report)
    errors = len(report.errors)
    return complain(f"{counted(errors, 'error')} in {report.url}") if errors else 0


def _noted(text: str) -> Noted:
    try:
        return Noted.parse(text)
    except Invalid as error:
        raise Usage(f"--chain: {error}") from None


def _show(report: Report) -> None:
    if report.findings:
        show_table(_COLUMNS, [_row(finding) for finding in report])
    found = [
        counted(sum(one.severity is severity for one in report), str(severity))
        for severity in Severity
    ]
    where = "no index" if report.version is None else f"version {report.version}"
    looked = (
        f"{counted(report.blocks, 'complete block')}, {counted(report.files, 'file')}, "
        f"{size(report.bytes)}, {where}"
    )
    say(f"{looked}: {', '.join(found) if report.findings else 'no problems found'}")
    if report.chain is not None:
        say(f"chain {report.version}:{report.chain}")


def _row(finding: Finding) -> dict[str, str]:
    return {
        "severity": str(finding.severity),
        "check": str(finding.check),
        "object": finding.object,
        "what": finding.what,
        "fix": finding.fix,
    }
