"""The tables that a caller sees, as catalogs and lists of every door show them: names and columns.

Rules:
- A table that a policy restricts is among them, since queries read it, with the columns that the
  policy shows. Nothing that counts its rows or names its blocks is here.
- The columns are those of a query: also labels, which are texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from blockstore.format.fields import required
from blockstore.format.identity import Key
from blockstore.reader.errors import Restricted
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.query.fences import fence_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table as a caller sees it."""

    name: str
    columns: pa.Schema
    key: tuple[str, ...]
    """The columns of its key; empty without one, or where they are not all seen."""
    needed: frozenset[str]
    """The columns that are never null."""
    restricted: bool
    """Whether a policy restricts it."""


def names_seen(gateway: Gateway, caller: Caller) -> tuple[str, ...]:
    """The tables that the caller sees, sorted."""
    if caller.restricted is None:
        return gateway.tables.names(caller.tables)
    return tuple(name for name in gateway.tables.names() if caller.sees(name))


def seen_of(gateway: Gateway, caller: Caller, name: str) -> Seen:
    """A table as the caller sees it. Raises UnknownTable, Restricted where its policy does not fit
    it, and what reading it raises."""
    policies = caller.restricted
    restricted = False
    try:
        own = gateway.tables.find(name, caller.tables)
    except Restricted as error:
        if policies is None:
            raise
        own, restricted = error.table, True
    # Its name was found for the caller just now; of a restricted one, no more than a fence shows.
    found = gateway.tables.snapshot(own).snapshot
    columns, identity = found.columns.visible, found.definition.identity
    key = tuple(identity.columns) if isinstance(identity, Key) else ()
    if restricted and policies is not None:
        fence = fence_of(own, columns, policies.of(own), policies.user)
        columns = pa.schema([field.remove_metadata() for field in fence.columns])
        key = key if set(key) <= set(columns.names) else ()
    needed = {*required(found.definition.schema), *key}.intersection(columns.names)
    return Seen(name=own, columns=columns, key=key, needed=frozenset(needed), restricted=restricted)
