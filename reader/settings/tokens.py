"""The tokens of clients: tables ``[tokens."name"]`` of ``reader.toml``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.http.tokens import Scope, Token
from blockstore.reader.settings.policies import named_by
from blockstore.reader.tables.policies import Policy
from blockstore.service import kinds
from blockstore.service.config import Key, Named


def moment(value: Any, name: str) -> int:
    """A moment with its zone, in milliseconds; TOML's own or a text."""
    try:
        found = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise Invalid(
            f"{name} is {value!s:.60}, expected a moment with its zone, such as "
            '"2027-01-01T00:00:00Z"'
        )
    return round(found.timestamp() * 1000)


RIGHTS = (
    Key(
        name="scopes",
        default=["read"],
        read=kinds.items(kinds.one_of(*Scope)),
        sentence="What it may do: read, write (rows and files), ddl (tables), admin (all of "
        "it, and all jobs).",
    ),
    Key(
        name="tables",
        default=[],
        read=kinds.items(kinds.text),
        sentence="The only tables that it may know, each by name or by a pattern such as "
        '"sales_*"; leave it out for all.',
    ),
    Key(
        name="policies",
        default=[],
        read=kinds.items(kinds.text),
        sentence="The [policies] that say which rows and columns of some tables it sees.",
    ),
    Key(
        name="queries_at_once",
        default="none",
        read=kinds.optional(kinds.between(kinds.count, 1, 1024), "none"),
        sentence="How many queries may run at once, of a token or of each person of a group; none "
        "for no limit of its own.",
    ),
    Key(
        name="bytes_a_day",
        default="none",
        read=kinds.optional(kinds.size, "none"),
        sentence="How many bytes of responses it may be sent in a day (UTC) by each gateway, of a "
        "token or of each person of a group; none for no limit.",
    ),
)
"""What a token, or a group of people, may do."""

TOKENS = Named(
    name="tokens",
    sentence="The tokens of clients; `blockstore token NAME` makes one. A token with a list of "
    "tables does not see any other. Tokens are read again when this file changes.",
    example="grafana",
    keys=(
        Key(name="sha256", default="", read=kinds.text, sentence="The SHA-256 of the token."),
        Key(
            name="expires",
            sets="expires_ms",
            default="never",
            read=kinds.optional(moment, "never"),
            sentence='Until when it may be used, such as "2027-01-01T00:00:00Z".',
        ),
        *RIGHTS,
    ),
)


def token_of(name: str, fields: Mapping[str, object], policies: Mapping[str, Policy]) -> Token:
    """A token of its fields and of the policies that there are. Raises Invalid."""
    expires_ms: Any = fields.get("expires_ms")
    return Token(
        name=name,
        sha256=str(fields.get("sha256", "")).lower(),
        expires_ms=expires_ms,
        **rights_of(f'[tokens."{name}"]', fields, policies),
    )


def rights_of(
    place: str, fields: Mapping[str, object], policies: Mapping[str, Policy]
) -> dict[str, Any]:
    """What the fields of ``RIGHTS`` say, by their names; ``place`` is where they are. Raises
    Invalid."""
    scopes: Any = fields.get("scopes", ("read",))
    tables: Any = fields.get("tables")
    return {
        "scopes": frozenset(Scope(one) for one in scopes),
        "tables": None if tables is None else frozenset(tables),
        "policies": named_by(place, fields, policies),
        "queries_at_once": fields.get("queries_at_once"),
        "bytes_a_day": fields.get("bytes_a_day"),
    }
