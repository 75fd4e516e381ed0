"""People who sign in elsewhere: tables ``[issuers."name"]`` and ``[groups."name"]`` of
``reader.toml``."""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.reader.http.people import Group, Issuer
from blockstore.reader.settings.tokens import RIGHTS, rights_of
from blockstore.reader.tables.policies import Policy
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
    keys=RIGHTS,
)


def issuer_of(name: str, fields: Mapping[str, object]) -> Issuer:
    """An issuer of its fields. Raises Invalid."""
    given = {key: str(value) for key, value in fields.items() if key != "url"}
    given.setdefault("audience", "")
    return Issuer(name=name, url=str(fields.get("url", "")), **given)


def group_of(name: str, fields: Mapping[str, object], policies: Mapping[str, Policy]) -> Group:
    """A group of its fields and of the policies that there are. Raises Invalid."""
    return Group(name=name, **rights_of(f'[groups."{name}"]', fields, policies))
