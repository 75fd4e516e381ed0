"""DECLARE, FETCH, MOVE and CLOSE: cursors of SQL, which are portals that have a name.

Rule: a cursor lives in its transaction, and only moves forward.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from itertools import pairwise

import pyarrow as pa

from blockstore.reader.postgres import states
from blockstore.reader.postgres.asks import Asks
from blockstore.reader.postgres.portals import Portal
from blockstore.reader.postgres.prepared import Prepared
from blockstore.reader.postgres.states import Refused
from blockstore.reader.postgres.texts import Kind, Part, split

_COUNT = re.compile(r"[0-9]{1,18}")
_DECLARED = re.compile(r"((ASENSITIVE|INSENSITIVE|NO SCROLL|SCROLL) )*CURSOR( WITHOUT HOLD)?")
_FORWARD = frozenset({"FORWARD", "FROM", "IN", "NEXT"})


def cursor_of(runs: Asks, portal: Portal, portals: MutableMapping[str, Portal]) -> None:
    """Carry out a statement about a cursor. Raises Refused."""
    part = portal.prepared.part
    if part.kind is Kind.DECLARE:
        _declare(runs, portal, portals)
    elif part.kind is Kind.CLOSE:
        _close(portal, portals)
    else:
        _fetch(portal, portals)


def declared(part: Part) -> Part:
    """The query of a DECLARE. Raises Refused."""
    place = next((at for at, one in enumerate(part.tokens) if one.word == "FOR"), None)
    if place is None or len(part.tokens) <= place + 1:
        raise Refused(states.SYNTAX, "DECLARE has no query: DECLARE name CURSOR FOR SELECT …")
    (inner,) = split(part.sql[part.tokens[place + 1].start :])
    if inner.kind is not Kind.QUERY:
        raise Refused(states.SYNTAX, "a cursor is for a query")
    return inner


def _declare(runs: Asks, portal: Portal, portals: MutableMapping[str, Portal]) -> None:
    part = portal.prepared.part
    if not runs.in_transaction:
        raise Refused(
            states.NOT_IN_TRANSACTION, "a cursor lives in a transaction: send BEGIN first"
        )
    name = part.tokens[1].text
    inner = declared(part)
    said = part.words[2 : part.words.index("FOR", 2)]
    if ("WITH", "HOLD") in pairwise(said):
        raise Refused(
            states.FEATURE,
            "a cursor ends with its transaction, so WITH HOLD is not possible: fetch all before "
            "COMMIT, or leave WITH HOLD out",
        )
    if "BINARY" in said:
        raise Refused(
            states.FEATURE,
            "FETCH has the format that its client asks for, so BINARY is not possible: leave it "
            "out",
        )
    if not _DECLARED.fullmatch(" ".join(said)):
        raise Refused(
            states.SYNTAX, "DECLARE cannot be read: expected DECLARE name CURSOR FOR SELECT …"
        )
    if name in portals:
        raise Refused("42P03", f"the cursor {name!r} exists already")
    prepared = Prepared(part=inner, types=portal.prepared.resolved or portal.prepared.types)
    cursor = Portal(prepared=prepared, values=portal.values, formats=())
    runs.query(cursor, prepared, portal.values)
    portals[name] = cursor
    portal.ends("DECLARE CURSOR")


def _close(portal: Portal, portals: MutableMapping[str, Portal]) -> None:
    name = portal.prepared.part.tokens[-1].text
    every = name.upper() == "ALL"
    if not every:
        _named(name, portals)
    for one in [own for own, other in portals.items() if other is not portal] if every else [name]:
        portals.pop(one).close()
    portal.ends("CLOSE CURSOR ALL" if every else "CLOSE CURSOR")


def _fetch(portal: Portal, portals: MutableMapping[str, Portal]) -> None:
    part = portal.prepared.part
    words = part.words
    cursor = _named(part.tokens[-1].text, portals)
    wanted = [one for one in words[1:-1] if one not in _FORWARD]
    if wanted not in ([], ["ALL"]) and not (len(wanted) == 1 and _COUNT.fullmatch(wanted[0])):
        raise Refused(states.FEATURE, "a cursor only moves forward: FETCH 100 FROM it")
    limit = 1 if not wanted else 0 if wanted == ["ALL"] else int(wanted[0])
    nothing: Iterable[pa.RecordBatch] = ()
    rows = nothing if wanted == ["0"] else cursor.rows(limit)
    if words[0] == "MOVE":
        portal.ends(f"MOVE {sum(one.num_rows for one in rows)}")
        return
    assert cursor.schema is not None, "a cursor has begun"
    portal.returns(cursor.schema, iter(rows), counts="FETCH")


def _named(name: str, portals: MutableMapping[str, Portal]) -> Portal:
    if name not in portals:
        raise Refused(states.NO_PORTAL, f"there is no cursor {name!r}")
    return portals[name]
