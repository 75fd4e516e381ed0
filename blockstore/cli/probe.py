"""``blockstore probe``: what a store really does, promise by promise."""

from __future__ import annotations

from blockstore.bucket import open_bucket
from blockstore.bucket.probe import Finding, Result
from blockstore.bucket.probe import probe as measure
from blockstore.cli.options import Json
from blockstore.cli.output import Column, show_json, show_table
from blockstore.world import World

__all__ = ["probe"]

_COLUMNS = (
    Column("result", ""),
    Column("name", "PROMISE"),
    Column("detail", "SEEN", fold=True),
    Column("consequence", "SO", fold=True),
)


def probe(url: str, /, *, json: Json = False) -> int:
    """Measure what a store guarantees.

    Writes a few small objects below the URL and removes them. The exit code is 1 if a promise is not kept.

    Parameters
    ----------
    url
        A place in the store where tables are to lie.
    json
        Print JSON: one object a promise.
    """
    world = World.real()
    findings = measure(open_bucket(url, world), world)
    rows = [_row(finding) for finding in findings]
    if json:
        show_json(rows)
    else:
        show_table(_COLUMNS, rows)
    return 1 if any(finding.result is Result.FAILED for finding in findings) else 0


def _row(finding: Finding) -> dict[str, str]:
    return {
        "result": str(finding.result),
        "name": finding.name,
        "detail": finding.detail,
        "consequence": finding.consequence,
    }
