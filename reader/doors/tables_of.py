"""The tables of a gateway, as the statements of a transaction open them."""

from __future__ import annotations

from collections.abc import Collection

from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.statements.doing import ExistingTables
from blockstore.table import Table


class OfGateway(ExistingTables):
    """Those that a caller may know. None is created or dropped in a transaction."""

    def __init__(self, gateway: Gateway, caller: Caller) -> None:
        self._gateway = gateway
        self._caller = caller

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return self._gateway.tables.names(self._caller.tables)

    def open(self, name: str) -> Table:
        return self._gateway.tables.table(name, self._caller.tables)
