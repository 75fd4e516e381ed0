"""A gateway with its Flight SQL door open, and a client that speaks the protocol by pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from blockstore.reader.flight.door import FlightDoor
from blockstore.reader.flight.messages import message, packed, unpacked
from blockstore.reader.settings import GatewaySettings
from blockstore.service.listening import Listening
from tests.reader.http.gateways import WRITE, Served, serving

CREATE, FAIL, APPEND, REPLACE = 1, 1, 2, 3


class Client:
    """Calls with one token."""

    def __init__(self, url: str, token: str | None = WRITE, **options: Any) -> None:
        self.flight = flight.FlightClient(url, **options)
        bearer = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._headers: list[tuple[bytes, bytes]] = bearer

    def options(self, **headers: str) -> flight.FlightCallOptions:
        more = [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ]
        return flight.FlightCallOptions(headers=[*self._headers, *more], timeout=60)

    def info(self, name: str, headers: dict[str, str] | None = None, **fields: Any) -> Any:
        descriptor = flight.FlightDescriptor.for_command(packed(name, **fields))
        return self.flight.get_flight_info(descriptor, self.options(**headers or {}))

    def get(self, name: str, headers: dict[str, str] | None = None, **fields: Any) -> pa.Table:
        found = self.info(name, headers, **fields)
        (end,) = found.endpoints
        table = self.flight.do_get(end.ticket, self.options()).read_all()
        assert table.schema == found.schema
        return table

    def query(self, sql: str, **headers: str) -> pa.Table:
        return self.get("CommandStatementQuery", headers, query=sql)

    def stream(self, sql: str) -> flight.FlightStreamReader:
        (end,) = self.info("CommandStatementQuery", query=sql).endpoints
        return self.flight.do_get(end.ticket, self.options())

    def put(
        self,
        name: str,
        columns: pa.Schema | None = None,
        batches: Iterable[pa.RecordBatch] = (),
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> bytes:
        descriptor = flight.FlightDescriptor.for_command(packed(name, **fields))
        writer, reader = self.flight.do_put(
            descriptor, columns or pa.schema([]), self.options(**headers or {})
        )
        with writer:
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            answer: bytes = reader.read().to_pybytes()
        return answer

    def update(self, sql: str, **headers: str) -> int:
        return count_of(self.put("CommandStatementUpdate", headers=headers, query=sql))

    def ingest(
        self,
        table: str,
        rows: pa.Table,
        missing: int = 2,
        there: int = APPEND,
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> int:
        definition = message("TableDefinitionOptions", if_not_exist=missing, if_exists=there)
        return count_of(
            self.put(
                "CommandStatementIngest",
                rows.schema,
                rows.to_batches(),
                headers,
                table=table,
                table_definition_options=definition,
                **fields,
            )
        )

    def act(self, action: str, body: bytes) -> list[bytes]:
        found = self.flight.do_action(flight.Action(action, body), self.options())
        return [one.body.to_pybytes() for one in found]

    def prepare(self, sql: str) -> Any:
        body = packed("ActionCreatePreparedStatementRequest", query=sql)
        (answer,) = self.act("CreatePreparedStatement", body)
        return unpacked(answer)[1]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.flight.close()


def count_of(answer: bytes) -> int:
    count: int = message("DoPutUpdateResult").FromString(answer).record_count
    return count


@dataclass(frozen=True)
class Opened:
    """A gateway that is served by HTTP and by Flight SQL."""

    http: Served
    door: FlightDoor
    client: Client

    def as_(self, token: str | None) -> Client:
        return Client(self.door.url, token)

    def idle(self, seconds: float = 20.0) -> bool:
        """Whether no call and no query runs, at the latest in so many seconds."""
        clock = self.http.gateway.world.clock
        until_s = clock.monotonic_s() + seconds
        while self.door.running or self.http.gateway.engine.running():
            if clock.monotonic_s() > until_s:
                return False
            clock.sleep(0.05)
        return True


@contextmanager
def opened(asked: GatewaySettings, **tls: Any) -> Iterator[Opened]:
    """The gateway with both doors, until the end of the block."""
    with serving(asked) as served:
        listening = Listening(host="127.0.0.1", port=0, **tls)
        with FlightDoor(served.gateway, listening) as door:
            token = WRITE if asked.tokens else None
            options = {"disable_server_verification": True} if tls else {}
            with Client(door.url, token, **options) as client:
                yield Opened(served, door, client)
