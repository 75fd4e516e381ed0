"""From a connection to a session: TLS, the token, the name of the database.

Rules:
- A token goes over TLS, or to a gateway without TLS that only this machine reaches; else the client
  is refused before it is asked for one.
- The token is all that says who the client is. Its user name is free, and shown back to it.
- A database is a lake that the gateway serves, by its name. Clients that name none, their user, or
  ``postgres`` are given the first.
- A client that is not known within ``stall_s`` is disconnected.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from blockstore.reader.doors.access import caller_of
from blockstore.reader.errors import Busy
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Refusal, UnknownToken
from blockstore.reader.http.tokens import ANYONE, Caller
from blockstore.reader.postgres import states, wire
from blockstore.reader.postgres.peer import Peer
from blockstore.reader.postgres.states import Refused

_USUAL = frozenset({"", "postgres", "blockstore"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """A client that is known."""

    caller: Caller
    user: str
    database: str
    options: dict[str, str]


async def first_message(
    peer: Peer, context: ssl.SSLContext | None, *, plain: bool
) -> wire.Startup | wire.CancelRequest:
    """The first message that is not about TLS. ``plain``: whether it may come without TLS."""
    asked = 0
    while True:
        message = await peer.next()
        if isinstance(message, wire.TlsRequest):
            asked += 1
            if asked > 2 or peer.encrypted:
                raise wire.Malformed("the client asks for TLS again and again")
            if message.gss or context is None:
                await peer.send(wire.NO_TLS)
                continue
            await peer.encrypt(context)
            continue
        if isinstance(message, wire.CancelRequest):
            return message
        if not isinstance(message, wire.Startup):
            raise wire.Malformed("the first message is not that of a client")
        peer.started()
        if not plain and not peer.encrypted:
            raise Refused(states.NOT_ALLOWED, "this gateway uses TLS: connect with sslmode=require")
        return message


async def signed_in(peer: Peer, gateway: Gateway, startup: wire.Startup) -> Welcome:
    """The client of a first message, once its token is known. Raises Refused."""
    if startup.minor or any(name.startswith("_pq_.") for name in startup.options):
        unknown = [name for name in startup.options if name.startswith("_pq_.")]
        await peer.send(wire.older(unknown))
    user = startup.options.get("user", "")
    if not user:
        raise Refused(states.NOT_ALLOWED, "the client names no user: any name will do")
    caller = ANYONE
    if gateway.gate.asks:
        await peer.send(wire.ASKS_PASSWORD)
        message = await peer.next()
        if not isinstance(message, wire.Password):
            raise wire.Malformed("a message came before the password")
        caller = _known(gateway, message.text)
    database = _database(gateway, startup.options.get("database", ""), user)
    peer.known()
    return Welcome(caller=caller, user=user, database=database, options=startup.options)


def _known(gateway: Gateway, token: str) -> Caller:
    statement = gateway.audit.began("postgres", request="connect")
    try:
        with statement.current():
            caller = caller_of(gateway, f"Bearer {token}")
        statement.counts = False
    except Refusal as error:
        why = str(error.detail)
        if isinstance(error, UnknownToken):
            why = (
                "the token is missing or unknown: the password is a token made by `blockstore "
                "token`" + (", or of a provider of [issuers]" if gateway.gate.people.any else "")
            )
        statement.failed(error, why)
        raise Refused(states.BAD_PASSWORD, why) from None
    except Busy as error:
        statement.failed(error)
        raise
    finally:
        statement.end()
    return caller


def _database(gateway: Gateway, name: str, user: str) -> str:
    names = [lake_name(url) for url in gateway.settings.tables.urls]
    if name in names:
        return name
    if name in _USUAL or name == user:
        return names[0]
    raise Refused(
        states.NO_DATABASE,
        f"there is no database {name[:60]!r}: this gateway has {', '.join(sorted(set(names)))}",
    )


def lake_name(url: str) -> str:
    """The name of a lake: the last part of its URL."""
    path = urlsplit(url).path if "://" in url else url.partition("?")[0]
    return path.rstrip("/").rpartition("/")[2] or "blockstore"
