"""Which rows and columns a token or a group sees: tables ``[policies."name"]`` of
``reader.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.tables.policies import Policy
from blockstore.service import kinds
from blockstore.service.config import Key, Named

POLICIES = Named(
    name="policies",
    sentence="Which rows and columns of some tables are seen by the tokens and groups that name "
    "the policy; read again when this file changes. Of several about one table, all hold.",
    example="own-orders",
    keys=(
        Key(
            name="tables",
            default=[],
            read=kinds.items(kinds.text),
            sentence='The tables that it is about, by name or by a pattern such as "sales_*".',
        ),
        Key(
            name="rows",
            default="",
            read=kinds.text,
            sentence='The condition of the rows that are seen, such as "tenant = current_user"; '
            "leave it out for all. current_user is the name of the token or person.",
        ),
        Key(
            name="columns",
            default=[],
            read=kinds.items(kinds.text),
            sentence="The only columns that are seen; leave it out for all.",
        ),
        Key(
            name="hide",
            default=[],
            read=kinds.items(kinds.text),
            sentence="Columns that are not seen. A table without one of them cannot be queried: it "
            "may have it by another name.",
        ),
    ),
)


def policy_of(name: str, fields: Mapping[str, object]) -> Policy:
    """A policy of its fields. Raises Invalid."""
    tables: Any = fields.get("tables", ())
    columns: Any = fields.get("columns")
    hide: Any = fields.get("hide", ())
    rows = fields.get("rows")
    return Policy(
        name=name,
        tables=frozenset(tables),
        rows=None if rows is None else str(rows),
        columns=None if columns is None else frozenset(columns),
        hide=frozenset(hide),
    )


def named_by(
    place: str, fields: Mapping[str, object], policies: Mapping[str, Policy]
) -> tuple[Policy, ...]:
    """The policies that a token or a group names. Raises Invalid for one that there is not."""
    names: Any = fields.get("policies", ())
    missing = sorted(set(names) - policies.keys())
    if missing:
        known = ", ".join(sorted(policies)) or "none"
        raise Invalid(f"{place} names the policy {missing[0]!r}, and the policies are: {known}")
    return tuple(policies[name] for name in sorted(set(names)))
