"""``blockstore materialize``: totals of a table by groups, kept up to date from its changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.following import follow, interval_s
from blockstore.cli.options import Json
from blockstore.cli.output import counted, say, show_json
from blockstore.cli.values import listed
from blockstore.errors import NotFound
from blockstore.feed.totals import Materialized, Wanted
from blockstore.index.idle import IdleLook
from blockstore.table import Table, create, open_any


def materialize(
    source: str,
    target: str,
    /,
    *,
    by: str,
    sum_: Annotated[str | None, Parameter(name="--sum")] = None,
    min_: Annotated[str | None, Parameter(name="--min")] = None,
    max_: Annotated[str | None, Parameter(name="--max")] = None,
    follow_: Annotated[bool, Parameter(name="--follow", negative="")] = False,
    every: str = "10s",
    json: Json = False,
) -> int:
    """Keep totals of a table by groups up to date, in a table of their own.

    The target has one row a group: the columns of --by, its number of rows as `rows`, and `sum_x`,
    `min_x` or `max_x` for each column x that was named. Each run brings it up to the newest version
    of the source in one version; it counts once, however often it is repeated.

    Parameters
    ----------
    source
        The table to count.
    target
        The table of totals; the first run creates it.
    by
        The columns to group by, `shop,day`. They become the key of the target, and may not be null.
    sum_
        The columns to add up.
    min_
        The columns whose smallest value to keep.
    max_
        The columns whose largest value to keep.
    follow_
        Do not end: bring it up to date again and again, until interrupted.
    every
        With --follow: the pause between two runs.
    json
        Print JSON: one document for each run.
    """
    pause_s = interval_s(every, "--every")
    wanted = Wanted(by=listed(by), sums=listed(sum_), smallest=listed(min_), largest=listed(max_))
    table = open_any(source)
    totals = _target(table, target, wanted)

    idle = [IdleLook(one.log, one.world.clock) for one in (table, totals)] if follow_ else []

    def act() -> None:
        for one in idle:
            one.look()
        _report(table.materialize(totals, wanted), target, json=json, quietly=follow_)

    if follow_:
        return follow(table.world, pause_s, act)
    act()
    return 0


def _target(source: Table, url: str, wanted: Wanted) -> Table:
    try:
        return open_any(url)
    except NotFound:
        return create(url, schema=source.totals_schema(wanted), key=wanted.by)


def _report(done: Materialized, url: str, *, json: bool, quietly: bool) -> None:
    if json:
        show_json(asdict(done))
    elif done.version is not None:
        say(
            f"{url} has the totals of version {done.source}: {counted(done.groups, 'group')} "
            f"counted, as version {done.version}"
        )
    elif not quietly:
        say(f"{url} has the totals of version {done.source}: nothing was to be changed")
