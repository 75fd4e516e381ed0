"""The tables that a reader holds: found below URLs, polled, and answered as snapshots that agree
with one another.

Names are loaded when they are used: a query over given snapshots needs few of these modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blockstore.reader.tables.at import At
    from blockstore.reader.tables.names import Names
    from blockstore.reader.tables.polling import Polling
    from blockstore.reader.tables.tables import Tables
    from blockstore.reader.tables.view import TableState, TableView

__all__ = ["At", "Names", "Polling", "TableState", "TableView", "Tables"]

_HOMES = {
    "At": "at",
    "Names": "names",
    "Polling": "polling",
    "TableState": "view",
    "TableView": "view",
    "Tables": "tables",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
