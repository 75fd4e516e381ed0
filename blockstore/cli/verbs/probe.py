"""``blockstore probe``: what a store really does, promise by promise."""

from __future__ import annotations

from blockstore.bucket import open_bucket
from blockstore.bucket.probe import Finding, Result, verdict
from blockstore.bucket.probe import probe as measure
from blockstore.cli.failure import complain
from blockstore.cli.options import Json
from blockstore.cli.output import Column, say, show_json, show_table
from blockstore.world import World

_COLUMNS = (
    Column("result", ""),
    Column("name", "PROMISE"),
    Column("detail", "SEEN", fold=True),
    Column("consequence", "SO", fold=True),
)


def probe(url: str, /, *, json: Json = False) -> int:
    """Measure what a store guarantees.

    Writes a few small objects below the URL and removes them. The exit code is 1 if a promise is
    not kept without which something does not work; a warning costs something, and works.

    Parameters
    ----------
    url
        A place in the store where tables are to lie.
    json
        Print JSON: one object a promise.
    """
    world = World.real()
    bucket = open_bucket(url, world)
    findings = measure(bucket, world)
    rows = [_row(finding) for finding in findings]
    if json:
        show_json(rows)
    else:
        show_table(_COLUMNS, rows)
        say(verdict(findings))
    broken = [finding.name for finding in findings if finding.result is Result.FAILED]
    if not broken:
        return 0
    return complain(f"{bucket.url} does not keep {', '.join(broken)}: {verdict(findings)}")


def _row(finding: Finding) -> dict[str, str]:
    return {
        "result": str(finding.result),
        "name": finding.name,
        "detail": finding.detail,
        "consequence": finding.consequence,
    }
