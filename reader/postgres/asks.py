"""What the parts of a session call: the caller's gateway, and the running of one query."""

from __future__ import annotations

from typing import Protocol

from blockstore.reader.doors.queries import Stopper
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.postgres.portals import Portal
from blockstore.reader.postgres.prepared import Prepared
from blockstore.reader.postgres.variables import Variables


class Asks(Protocol):
    """A session, as COPY and cursors use it."""

    gateway: Gateway
    caller: Caller
    database: str
    variables: Variables

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def query(self, portal: Portal, prepared: Prepared, values: tuple[object, ...]) -> None:
        """Start a query whose rows a portal returns."""
        ...

    def new_stopper(self) -> Stopper:
        """What stops the statement that begins now, if it is cancelled or takes too long."""
        ...

    def check_writes(self) -> None:
        """Raise Refused or Problem if this session may not write now."""
        ...
