"""One client's session, from its password to its end: what it prepares, and in which state it is.

Rules:
- After an error the messages of a series are skipped until its Sync, as the protocol says.
- Whatever ends a session (an error, the client, the gateway) ends what it runs and frees its place.
- Before each message the token is looked at again; one that is no longer what it was ends the
  session.
- A statement has its line in the audit log before its client has its end; one that is wrong
  before it runs has one as well.
- A portal lives until its transaction ends, or until the next Sync outside of one.
- What the client sends out of place (a part of a COPY that has ended) is ignored, as PostgreSQL
  does; what is not the protocol ends the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from blockstore.reader.audit import Statement
from blockstore.reader.doors.access import check_still
from blockstore.reader.http.problems import Refusal
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.postgres import states, wire
from blockstore.reader.postgres.copying import copied_in
from blockstore.reader.postgres.peer import Gone, Peer
from blockstore.reader.postgres.portals import Portal
from blockstore.reader.postgres.prepared import Prepared
from blockstore.reader.postgres.running import CopyIn, Runs
from blockstore.reader.postgres.states import Ended, Refused, reported
from blockstore.reader.postgres.texts import Kind, Part, split
from blockstore.reader.postgres.values import value_of

_logger = logging.getLogger("blockstore.access")
_HELD = 64 << 10
"""So many bytes are kept before they are sent."""
_MOST_PREPARED = 1_000


@dataclass
class Session:
    """A session of a client that is known."""

    peer: Peer
    runs: Runs
    _out: bytearray = field(default_factory=bytearray)
    _prepared: dict[str, Prepared] = field(default_factory=dict)
    _portals: dict[str, Portal] = field(default_factory=dict)
    _skips: bool = False
    _part: Statement | None = None
    """The statement that a message is about, until it has ended."""

    async def run(self) -> None:
        """Serve the client until it leaves. Raises Gone, and Malformed for what is not the
        protocol."""
        self.peer.on_leaving(self.runs.cancel)
        try:
            while True:
                message = await self.peer.next()
                if isinstance(message, wire.Terminate):
                    return
                await self._still_known(message)
                self.runs.own.active = not isinstance(message, wire.Sync)
                await self._serve(message)
                self.runs.own.active = False
        finally:
            self.peer.on_leaving(None)
            await self._close_portals()
            await in_thread(self.runs.close)

    async def _still_known(self, message: wire.Message) -> None:
        """Raise Ended for a session whose token is no longer what it was."""
        try:
            check_still(self.runs.gateway, self.runs.caller)
        except Refusal as error:
            match message:
                case wire.Query() | wire.Parse():
                    refused = self._begin(message.sql)
                case wire.Bind():
                    refused = self._begin(self._text_of(message.statement))
                case wire.Describe() if message.kind == "S":
                    refused = self._begin(self._text_of(message.name))
                case wire.Describe(name=name) | wire.Execute(portal=name) if name in self._portals:
                    refused = self._begin_of(self._portals[name])
                case wire.Sync() | wire.Flush():
                    return  # there is nothing to refuse yet
                case _:
                    refused = self._begin("")
                    refused.counts = False
            why = str(error.detail)
            await in_thread(partial(refused.end_with, error, why))
            await self._flush()
            raise Ended(states.NOT_ALLOWED, why) from None

    def _begin(self, sql: str) -> Statement:
        gateway, caller = self.runs.gateway, self.runs.caller
        made = gateway.audit.began("postgres", text=sql)
        self.runs.own.doing = sql or self.runs.own.doing
        made.is_of(caller.name, gateway.quotas.counting(caller), caller.person)
        return made

    def _begin_of(self, portal: Portal) -> Statement:
        """The statement of a portal, which begins with its first use."""
        if portal.statement is None:
            portal.statement = self._begin(portal.prepared.sent or portal.prepared.part.sql)
        return portal.statement

    async def _serve(self, message: wire.Message) -> None:
        match message:
            case wire.Query():
                await self._query(message.sql)
            case wire.Sync():
                self._skips = False
                if self.runs.state == "I":
                    await self._close_portals()
                await self._ready()
            case wire.Flush():
                await self._flush()
            case wire.CopyData() | wire.CopyDone() | wire.CopyFail():
                pass
            case wire.Parse() | wire.Bind() | wire.Describe() | wire.Execute() | wire.Close():
                if not self._skips:
                    await self._extended(message)
            case _:
                raise wire.Malformed("a message came that does not belong here")

    # The simple protocol

    async def _query(self, sql: str) -> None:
        prepared: Prepared | None = None
        parts: list[Part] = []
        try:
            parts = await in_thread(lambda: split(sql))
            for part in parts:
                prepared = Prepared(part=part, types=(), sent=sql if len(parts) == 1 else "")
                await self._still_known(wire.Query(sql=prepared.sent or part.sql))
                await self._whole(prepared)
        except (Gone, Ended):
            raise
        except Exception as error:  # noqa: BLE001 - the client receives it
            own = prepared.text if prepared is not None else sql
            await self._failed(error, own if len(parts) < 2 else "", sql)
        if self.runs.state == "I":
            await self._close_portals()
        await self._ready()

    async def _whole(self, prepared: Prepared) -> None:
        """Run one statement of a text, and send all that it returns."""
        if prepared.part.kind is Kind.EMPTY:
            await self._put(wire.EMPTY)
            return
        portal = Portal(prepared=prepared, values=(), formats=())
        try:
            await self._begun(portal)
            if portal.columns is not None:
                await self._put(wire.columns(portal.columns, portal.forms))
            await self._rows(portal, 0)
        except Exception as error:
            self._part = self._ends(portal, error)
            raise
        finally:
            await in_thread(portal.close)

    # The extended protocol

    async def _extended(self, message: wire.Message) -> None:
        sql = text = ""
        portal: Portal | None = None
        try:
            match message:
                case wire.Parse():
                    sql = text = message.sql
                    await self._parse(message)
                case wire.Bind():
                    text = self._text_of(message.statement)
                    await self._bind(message)
                case wire.Describe():
                    portal = self._portals.get(message.name) if message.kind == "P" else None
                    text = self._text_of(message.name)
                    await self._describe(message)
                case wire.Execute():
                    portal = self._portal(message.portal)
                    sql = portal.prepared.text
                    if portal.prepared.part.kind is Kind.EMPTY:
                        await self._put(wire.EMPTY)
                    else:
                        await self._begun(portal)
                        await self._rows(portal, message.limit)
                case wire.Close():
                    await self._forget(message)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - the client receives it
            if portal is not None:
                self._part = self._ends(portal, error)
            await self._failed(error, sql, text)
            self._skips = True
            await self._flush()

    async def _parse(self, message: wire.Parse) -> None:
        parts = await in_thread(lambda: split(message.sql))
        if len(parts) != 1:
            raise Refused(
                states.SYNTAX,
                f"a prepared statement is one statement, found {len(parts)}: send them one by one",
            )
        if message.name and message.name in self._prepared:
            raise Refused("42P05", f"the prepared statement {message.name!r} exists already")
        if len(self._prepared) >= _MOST_PREPARED:
            raise Refused(
                "53400", f"a session has at most {_MOST_PREPARED:,} prepared statements: close some"
            )
        prepared = Prepared(part=parts[0], types=message.types, sent=message.sql)
        await in_thread(lambda: self.runs.check(prepared))
        self._prepared[message.name] = prepared
        await self._put(wire.PARSED)

    async def _bind(self, message: wire.Bind) -> None:
        prepared = self._statement(message.statement)
        types = await in_thread(lambda: self.runs.types(prepared))
        if len(message.values) != len(types):
            raise Refused(
                states.PROTOCOL,
                f"the statement has {len(types)} parameters, and {len(message.values)} values came",
            )
        forms = _spread(message.formats, len(types), "parameters")
        values = tuple(
            value_of(value, oid, form, place)
            for place, (value, oid, form) in enumerate(
                zip(message.values, types, forms, strict=True), start=1
            )
        )
        if message.portal and message.portal in self._portals:
            raise Refused("42P03", f"the portal {message.portal!r} exists already")
        await self._close_portal(message.portal)
        self._portals[message.portal] = Portal(
            prepared=prepared, values=values, formats=message.results
        )
        await self._put(wire.BOUND)

    async def _describe(self, message: wire.Describe) -> None:
        if message.kind == "S":
            prepared = self._statement(message.name)
            types = await in_thread(lambda: self.runs.types(prepared))
            await in_thread(lambda: self.runs.describe(prepared))
            await self._put(wire.parameters(types))
            columns, forms = prepared.columns, [0] * len(prepared.columns or ())
        else:
            portal = self._portal(message.name)
            if portal.prepared.returns_rows:
                await self._begun(portal)
            columns, forms = portal.columns, portal.forms
        await self._put(wire.NO_DATA if columns is None else wire.columns(columns, forms))

    async def _forget(self, message: wire.Close) -> None:
        if message.kind == "S":
            self._prepared.pop(message.name, None)
        else:
            await self._close_portal(message.name)
        await self._put(wire.CLOSED)

    # Both

    async def _begun(self, portal: Portal) -> None:
        """Start what a portal is for, unless it has started."""
        portal.iso = self.runs.variables.iso_intervals
        if not portal.started:
            with self._limited(), self._begin_of(portal).current():
                await in_thread(lambda: self.runs.begin(portal, self._prepared, self._portals))
                await self.runs.wait(portal)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Cancel what runs in the block after ``statement_timeout``."""
        seconds = self.runs.variables.timeout_s
        if seconds is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(seconds, self.runs.cancel)
        try:
            yield
        finally:
            timer.cancel()

    async def _rows(self, portal: Portal, limit: int) -> None:
        """Send rows of a portal, at most ``limit``, and its end."""
        try:
            with self._limited():
                await self._pieces(portal, limit)
        except Exception as error:
            self._log(portal, "aborted" if isinstance(error, Gone) else reported(error).state)
            raise
        if not portal.suspended:
            self._log(portal, "done")

    def _log(self, portal: Portal, ended: str) -> None:
        """One line per statement, without its text, which contains people's data."""
        kind = portal.prepared.part.kind
        caller = self.runs.caller.name
        _logger.info("postgres %s %s", kind, ended, extra={"caller": caller})

    async def _pieces(self, portal: Portal, limit: int) -> None:
        for name, value in self.runs.changed():
            await self._put(wire.setting(name, value))
        if portal.notice:
            await self._put(wire.problem(portal.notice, notice=True))
        if isinstance(portal.copy, CopyIn):
            await self._flush()
            with self._begin_of(portal).current():
                rows = await copied_in(self.peer, self.runs, portal.copy)
            portal.finish(rows)
        elif portal.copy is not None:
            await self._put(portal.copy.begins)
        while (piece := await in_thread(lambda: portal.take(limit))) is not None:
            self._begin_of(portal).gives(size=len(piece))
            await self._put(piece)
            if portal.suspended:
                await self._put(wire.SUSPENDED)
                return
        await in_thread(self._begin_of(portal).end)
        await self._put(wire.complete(portal.tag))

    async def _failed(self, error: Exception, sql: str, text: str) -> None:
        """Report an error. ``text``: what failed, where no portal was begun for it."""
        self.runs.failed()
        found = reported(error, sql)
        statement, self._part = self._part or self._begin(text), None
        await in_thread(lambda: statement.end_with(error, found.message))
        self._out += found.message_bytes

    def _ends(self, portal: Portal, error: Exception) -> Statement | None:
        """The statement of a portal that failed: it ends with the error, and not with the portal,
        unless the client is gone."""
        if isinstance(error, Gone):
            return None
        statement, portal.statement = self._begin_of(portal), None
        return statement

    def _text_of(self, name: str) -> str:
        found = self._prepared.get(name)
        return "" if found is None else found.sent

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise Refused(states.NO_STATEMENT, f"there is no prepared statement {name!r}")
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Refused(states.NO_PORTAL, f"there is no portal {name!r}")
        return self._portals[name]

    async def _close_portal(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None:
            await in_thread(portal.close)

    async def _close_portals(self) -> None:
        for name in list(self._portals):
            await self._close_portal(name)

    async def _ready(self) -> None:
        self._out += wire.ready(self.runs.state)
        await self._flush()

    async def _put(self, data: bytes) -> None:
        self._out += data
        if len(self._out) > _HELD:
            await self._flush()

    async def _flush(self) -> None:
        if self._out:
            data, self._out = bytes(self._out), bytearray()
            await self.peer.send(data)


def _spread(formats: Sequence[int], count: int, what: str) -> list[int]:
    """One format for each of ``count`` values. Raises Refused."""
    if len(formats) == count:
        return list(formats)
    if len(formats) <= 1:
        return [*(formats or (0,))] * count
    raise Refused(
        states.PROTOCOL, f"there are {len(formats)} formats for {count} {what}, expected as many"
    )
