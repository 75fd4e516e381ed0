"""The gateway's verbs on the command line: ``serve`` and ``token``.

This module imports neither DuckDB nor the server: the help of its verbs needs neither.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from blockstore.cli.failure import Usage, remark
from blockstore.cli.options import Json, Many
from blockstore.cli.output import say, show_json
from blockstore.extras import load

if TYPE_CHECKING:
    from blockstore.reader.http.gateway import Gateway
    from blockstore.reader.settings import GatewaySettings


def serve(
    *urls: str,
    config: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    flight_port: int | None = None,
    postgres_port: int | None = None,
    no_auth: Annotated[bool, Parameter(name="--no-auth", negative="")] = False,
) -> None:
    """Serve SQL over tables by HTTP, with a page: the reader gateway.

    It runs until Ctrl-C or SIGTERM; then it finishes its responses and leaves its jobs to other
    gateways.

    Parameters
    ----------
    urls
        Tables, or lakes: folders of tables. They override those of the file.
    config
        The configuration file; see configs/reader.toml.
    host
        The address to listen on; it overrides the file.
    port
        The port to listen on; 0 takes a free one.
    flight_port
        Serve Arrow Flight SQL as well, on this port; 0 takes a free one.
    postgres_port
        Serve PostgreSQL's protocol as well, on this port; 0 takes a free one.
    no_auth
        Require no token; only on a loopback address.
    """
    from blockstore.reader.settings import load_settings

    settings = load_settings(config)
    tables = replace(settings.tables, urls=urls) if urls else settings.tables
    if not tables.urls:
        raise Usage("serve needs a URL: name tables or lakes, or a --config with urls in [tables]")
    listening = settings.http.listening
    listening = replace(
        listening,
        host=listening.host if host is None else host,
        port=listening.port if port is None else port,
    )
    flight = settings.flight
    if flight_port is not None:
        flight = replace(flight, host=host or flight.host or listening.host, port=flight_port)
    postgres = settings.postgres
    if postgres_port is not None:
        postgres = replace(
            postgres, host=host or postgres.host or listening.host, port=postgres_port
        )
    settings = replace(
        settings,
        tables=tables,
        http=replace(settings.http, listening=listening),
        flight=flight,
        postgres=postgres,
    )
    _check_gate(settings, no_auth)
    if no_auth:
        settings = replace(settings, tokens=(), issuers=(), groups=())
    _run(settings, None if no_auth else config)


def token(
    name: str,
    /,
    *,
    scope: Annotated[
        tuple[Literal["read", "write", "ddl", "admin"], ...], Parameter(negative="")
    ] = ("read",),
    table: Annotated[Many, Parameter(name="--table", negative="")] = (),
    expires: str | None = None,
    json: Json = False,
) -> None:
    """Make a token for the gateway: it is shown once, with its hash for the configuration.

    Parameters
    ----------
    name
        A name for its holder.
    scope
        What it may do: read, write (rows and files), ddl (tables), admin. Repeat the option for
        several.
    table
        A table that it may know of, or a pattern such as "sales_*"; repeat it for several. All if
        none is named.
    expires
        Until when it may be used, such as 2027-01-01T00:00:00Z; without end if it is left out.
    json
        Print JSON.
    """
    if not name.strip():
        raise Usage("the token's name is empty, expected who will hold it, such as grafana")
    from blockstore.reader.http.tokens import Scope, Token, fresh, hashed, shown
    from blockstore.reader.settings.tokens import moment
    from blockstore.world import World

    world = World.real()
    made = fresh(world.ids)
    tables = list(table)
    until_ms = None if expires is None else moment(expires, "--expires")
    if until_ms is not None and until_ms <= world.clock.now_ms():
        raise Usage(f"--expires is {shown(until_ms)}, which is over: name a later moment")
    entry = Token(
        name=name,
        sha256=hashed(made),
        scopes=frozenset(Scope(one) for one in scope),
        tables=frozenset(tables) if tables else None,
        expires_ms=until_ms,
    )
    scopes = [str(one) for one in sorted(entry.scopes)]
    if json:
        show_json(
            {
                "name": name,
                "token": made,
                "sha256": entry.sha256,
                "scopes": list(scopes),
                "tables": tables or None,
                "expires": None if until_ms is None else shown(until_ms),
            }
        )
        return
    say(made)
    remark(
        "the token is not shown again; add its hash to the gateway's configuration, which is read "
        "again when it changes:"
    )
    lines = [f"[tokens.{_quoted(name)}]", f'sha256 = "{entry.sha256}"', f"scopes = {_list(scopes)}"]
    if tables:
        lines.append(f"tables = {_list(tables)}")
    if until_ms is not None:
        lines.append(f"expires = {_quoted(shown(until_ms))}")
    remark("\n" + "\n".join(lines))


def _check_gate(settings: GatewaySettings, no_auth: bool) -> None:
    from blockstore.errors import Invalid

    listening = settings.http.listening
    if listening.off:
        raise Invalid("[http] has no address to listen on: set listen, or use --host and --port")
    doors = [
        listening,
        settings.flight.listening(listening),
        settings.postgres.listening(listening),
    ]
    open_to_all = next((one for one in doors if not one.off and not one.loopback), None)
    if no_auth and open_to_all is not None:
        raise Invalid(
            f"--no-auth with {open_to_all.host} would give every caller access: listen on "
            "127.0.0.1, or make tokens with blockstore token"
        )
    if not no_auth and not settings.tokens and not settings.issuers:
        raise Invalid(
            "no token is configured, so every request would be refused: make one with blockstore "
            "token NAME, name a provider in [issuers], or use --no-auth to serve this machine only"
        )


def _run(settings: GatewaySettings, config: Path | None) -> None:
    from blockstore.reader.http.app import application
    from blockstore.reader.http.gateway import Gateway
    from blockstore.reader.settings import Watched
    from blockstore.service.connections import raise_limit
    from blockstore.service.logs import set_up
    from blockstore.service.serving import Server
    from blockstore.service.signals import on_signals
    from blockstore.service.watched_files import LOOK_S
    from blockstore.world import World

    set_up(settings.log)
    raise_limit()
    over, wake = threading.Event(), threading.Event()

    def end() -> None:
        over.set()
        wake.set()

    gateway = Gateway(settings, World.real())
    watched = None if config is None else Watched(config, gateway.gate)
    # Without a file there is nothing to read again: SIGHUP ends it, as that of a closed terminal.
    again = None if watched is None else wake.set
    with on_signals(end, again), closing(gateway), ExitStack() as doors:
        server = doors.enter_context(Server(application(gateway), settings.http.listening))
        gateway.metrics.of_door("http", lambda: server.connections)
        urls = [server.url]
        flight = settings.flight.listening(settings.http.listening)
        if not flight.off:
            from blockstore.reader.flight.door import FlightDoor

            urls.append(doors.enter_context(FlightDoor(gateway, flight)).url)
        postgres = settings.postgres.listening(settings.http.listening)
        if not postgres.off:
            door = load("blockstore.reader.postgres.door", "PostgresDoor", "the Postgres door")
            urls.append(doors.enter_context(door(gateway, postgres)).url)
        threading.Thread(target=_read_keys, args=(gateway, over), daemon=True).start()
        gateway.start()
        say(f"serving {', '.join(settings.tables.urls)} at {' and '.join(urls)}")
        while server.alive and not over.is_set():
            asked = wake.wait(LOOK_S) and not over.is_set()
            wake.clear()
            if watched is not None:
                watched.look(asked=asked)
            gateway.audit.settle()


def _read_keys(gateway: Gateway, over: threading.Event) -> None:
    """Read the keys of providers, which may be slow, while the gateway runs."""
    gateway.gate.people.look()
    while not over.wait(1):
        gateway.gate.people.look()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _list(texts: list[str]) -> str:
    return "[" + ", ".join(_quoted(text) for text in texts) + "]"
