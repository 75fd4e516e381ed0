"""The gateway's verbs on the command line: ``serve`` and ``token``.

This module imports neither DuckDB nor the server: the help of its verbs needs neither.
"""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from blockstore.cli.failure import Usage, remark
from blockstore.cli.options import Json, Many
from blockstore.cli.output import say, show_json

if TYPE_CHECKING:
    from blockstore.reader.settings import GatewaySettings


def serve(
    *urls: str,
    config: Path | None = None,
    host: str | None = None,
    port: int | None = None,
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
    settings = replace(settings, tables=tables, http=replace(settings.http, listening=listening))
    _check_gate(settings, no_auth)
    if no_auth:
        settings = replace(settings, tokens=())
    _run(settings)


def token(
    name: str,
    /,
    *,
    scope: Annotated[tuple[Literal["read", "write", "admin"], ...], Parameter(negative="")] = (
        "read",
    ),
    table: Annotated[Many, Parameter(name="--table", negative="")] = (),
    json: Json = False,
) -> None:
    """Make a token for the gateway: it is shown once, with its hash for the configuration.

    Parameters
    ----------
    name
        A name for its holder.
    scope
        What it may do: read, write (upload), admin. Repeat the option for several.
    table
        A table that it may know of; repeat it for several. All if none is named.
    json
        Print JSON.
    """
    if not name.strip():
        raise Usage("the token's name is empty, expected who will hold it, such as grafana")
    from blockstore.reader.http.tokens import Scope, Token, fresh, hashed
    from blockstore.world import World

    made = fresh(World.real().ids)
    tables = list(table)
    entry = Token(
        name=name,
        sha256=hashed(made),
        scopes=frozenset(Scope(one) for one in scope),
        tables=frozenset(tables) if tables else None,
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
            }
        )
        return
    say(made)
    remark(
        "the token is not shown again; add its hash to the gateway's configuration and restart "
        "the gateway:"
    )
    lines = [f"[tokens.{_quoted(name)}]", f'sha256 = "{entry.sha256}"', f"scopes = {_list(scopes)}"]
    if tables:
        lines.append(f"tables = {_list(tables)}")
    remark("\n" + "\n".join(lines))


def _check_gate(settings: GatewaySettings, no_auth: bool) -> None:
    from blockstore.errors import Invalid

    listening = settings.http.listening
    if listening.off:
        raise Invalid("[http] has no address to listen on: set listen, or use --host and --port")
    if no_auth and not listening.loopback:
        raise Invalid(
            f"--no-auth with {listening.host} would give every caller access: listen on "
            "127.0.0.1, or make tokens with blockstore token"
        )
    if not no_auth and not settings.tokens:
        raise Invalid(
            "no token is configured, so every request would be refused: make one with blockstore "
            "token NAME, or use --no-auth to serve this machine only"
        )


def _run(settings: GatewaySettings) -> None:
    from blockstore.reader.http.app import application
    from blockstore.reader.http.gateway import Gateway
    from blockstore.service.logs import set_up
    from blockstore.service.serving import Server
    from blockstore.world import World

    set_up(settings.log)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    gateway = Gateway(settings, World.real())
    try:
        with Server(application(gateway), settings.http.listening) as server:
            gateway.start()
            say(f"serving {', '.join(settings.tables.urls)} at {server.url}")
            while server.alive and not over.wait(1.0):
                pass
    finally:
        gateway.close()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _list(texts: list[str]) -> str:
    return "[" + ", ".join(_quoted(text) for text in texts) + "]"
