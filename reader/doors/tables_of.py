"""The tables of a gateway, as the statements of a transaction open them."""

from __future__ import annotations

from collections.abc import Collection

from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.table import Table


class OfGateway:
    """Those that a caller may know. None is created or dropped in a transaction."""

    def __init__(self, gateway: Gateway, caller: Caller) -> None:
        self._gateway = gateway
        self._caller = caller

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return self._gateway.tables.names(self._caller.tables)

    def open(self, name: str) -> Table:
        return self._gateway.tables.table(name, self._caller.tables)

    def create(self, name: str, definition: Definition) -> Table:
        raise Invalid(f"table {name} cannot be created in a transaction")

    def drop(self, name: str, message: str, *, empty: bool = False) -> int:
        raise Invalid(f"table {name} cannot be dropped in a transaction")

    def undrop(self, name: str, message: str) -> int:
        raise Invalid(f"table {name} cannot be brought back in a transaction")
