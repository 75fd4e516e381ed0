"""People who sign in elsewhere: tables ``[issuers."name"]`` and ``[groups."name"]`` of
``reader.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockstore.reader.http.people import Group, Issuer
from blockstore.reader.http.tokens import Scope
from blockstore.service import kinds
from blockstore.service.config import Key, Named

ISSUERS = Named(
    name="issuers",
    sentence="OpenID providers whose bearer tokens count, in addition to those of [tokens]; read "
    "again when this file changes.",
    example="company",
    keys=(
        Key(
            name="url",
            default="",
            read=kinds.text,
            sentence='The issuer, as its tokens name it, such as "https://login.example.com".',
        ),
        Key(
            name="audience",
            default="",
            read=kinds.text,
            sentence="What its tokens for this gateway name as their audience.",
        ),
        Key(
            name="keys",
            default="",
            read=kinds.text,
            sentence="A URL or a file of its public keys (JWKS); empty for what its own "
            "description names.",
        ),
        Key(
            name="name_claim",
            default="email",
            read=kinds.text,
            sentence="The claim that names the person, in logs and histories.",
        ),
        Key(
            name="groups_claim",
            default="groups",
            read=kinds.text,
            sentence="The claim that lists the person's groups.",
        ),
    ),
)

PEOPLES_GROUPS = Named(
    name="groups",
    sentence="What people of a group of their provider may do; one of several groups has the "
    "rights of the first that is listed here.",
    example="analysts",
    keys=(
        Key(
            name="scopes",
            default=["read"],
            read=kinds.items(kinds.one_of(*Scope)),
            sentence="As those of a token.",
        ),
        Key(
            name="tables",
            default=[],
            read=kinds.items(kinds.text),
            sentence="As those of a token; leave it out for all.",
        ),
        Key(
            name="queries_at_once",
            default="none",
            read=kinds.optional(kinds.between(kinds.count, 1, 1024), "none"),
            sentence="How many queries of one person may run at once; none for no limit of its "
            "own.",
        ),
    ),
)


def issuer_of(name: str, fields: Mapping[str, object]) -> Issuer:
    """An issuer of its fields. Raises Invalid."""
    given = {key: str(value) for key, value in fields.items() if key != "url"}
    given.setdefault("audience", "")
    return Issuer(name=name, url=str(fields.get("url", "")), **given)


def group_of(name: str, fields: Mapping[str, object]) -> Group:
    """A group of its fields. Raises Invalid."""
    scopes: Any = fields.get("scopes", ("read",))
    tables: Any = fields.get("tables")
    queries: Any = fields.get("queries_at_once")
    return Group(
        name=name,
        scopes=frozenset(Scope(one) for one in scopes),
        tables=None if tables is None else frozenset(tables),
        queries_at_once=queries,
    )
