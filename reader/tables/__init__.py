"""The tables that a reader holds: found below URLs, polled, and answered as snapshots that agree with one another."""

from reader.tables.at import At
from reader.tables.names import Names
from reader.tables.polling import Polling
from reader.tables.tables import Tables
from reader.tables.view import TableState, TableView

__all__ = ["At", "Names", "Polling", "TableState", "TableView", "Tables"]
