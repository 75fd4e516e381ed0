"""The tables that a reader holds: found below URLs, polled, and answered as snapshots that agree
with one another.

Names are loaded when they are used: a query over given snapshots needs few of these modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.reader.tables.at import At
    from blockstore.reader.tables.names import Names
    from blockstore.reader.tables.polling import Polling
    from blockstore.reader.tables.tables import Tables
    from blockstore.reader.tables.view import TableState, TableView

__all__ = ["At", "Names", "Polling", "TableState", "TableView", "Tables"]

__getattr__ = lazy(
    __name__,
    {
        ".at": ("At",),
        ".names": ("Names",),
        ".polling": ("Polling",),
        ".tables": ("Tables",),
        ".view": ("TableState", "TableView"),
    },
)
