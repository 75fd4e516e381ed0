"""Open a table that may have no index, with the delays from the command line."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

from blockstore.cli.options import Many
from blockstore.cli.values import pairs
from blockstore.format.properties import Properties
from blockstore.table import Table, open_any
from blockstore.table import open as open_table

Property: TypeAlias = Annotated[Many, Parameter(name="--property", negative="")]
"""``--property name=value``: the delays of a table without an index, which are not stored."""


def open_with(url: str, properties: Many, *, dropped: bool = False) -> Table:
    """Open a table by its index, or by a listing if it never had one; with ``dropped`` also one
    that was dropped."""
    if not properties:
        return open_any(url, dropped=dropped)
    return open_table(url, discovery="list", properties=pairs(properties, "--property"))


def delays(properties: Many) -> Properties | None:
    """Parse ``--property``; None if it was not given."""
    return Properties.parse(pairs(properties, "--property")) if properties else None
