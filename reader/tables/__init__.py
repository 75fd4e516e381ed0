"""The tables that a gateway serves: found under URLs, polled, and returned as consistent snapshots.

A gateway is given URLs, each of a table or of a lake. It lists lakes for tables (``lake.py``) and
holds each table's newest snapshot in memory (``held.py``). A few threads poll the tables that are in
use (``polling.py`` decides when); one look is two small requests if nothing changed (``look.py``). A
query takes snapshots and never waits for a poll, except when a table was idle or is known to be
behind. Newest snapshots of several tables are of one instant (``instant.py``).

    Tables       all tables: names, snapshots, handles, and the polling threads
    TableView    what is known of one table now; its TableState is for pages and metrics
    Polling      how often tables are polled, and when their data is stale
    At           a version: a number, a moment, a tag, or the newest
    Names        the table names that one caller may use, compared as SQL does

Example::

    tables = Tables(["s3://lake"], polling=Polling(interval_s=15))
    tables.start()
    snapshots = tables.snapshots(["flights", "airports"])

Names are loaded lazily: a query over given snapshots needs few of these modules.
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
