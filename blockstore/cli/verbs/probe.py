"""``blockstore probe``: measure what a store does, guarantee by guarantee."""

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
    Column("name", "GUARANTEE"),
    Column("detail", "SEEN", fold=True),
    Column("consequence", "CONSEQUENCE", fold=True),
)


def probe(url: str, /, *, json: Json = False) -> int:
    """Measure what an object store guarantees.

    It writes a few small objects below the URL and removes them again. The exit code is 1 if the
    store lacks something that Blockstore needs. A warning means that something works, at a cost.

    Parameters
    ----------
    url
        A place in the store for tables.
    json
        Print JSON: one object for each guarantee.
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
    return complain(f"{bucket.url} does not guarantee {', '.join(broken)}: {verdict(findings)}")


def _row(finding: Finding) -> dict[str, str]:
    return {
        "result": str(finding.result),
        "name": finding.name,
        "detail": finding.detail,
        "consequence": finding.consequence,
    }
