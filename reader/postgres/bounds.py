"""BEGIN, COMMIT and ROLLBACK: what their words say. Words that they do not have are refused, since
what is left out of them would change what is committed."""

from __future__ import annotations

import re

from blockstore.reader.postgres import states
from blockstore.reader.postgres.states import Refused
from blockstore.reader.postgres.texts import Kind, Part

_MODE = (
    r"( ,)? (ISOLATION LEVEL (SERIALIZABLE|REPEATABLE READ|READ COMMITTED|READ UNCOMMITTED)"
    r"|READ WRITE|READ ONLY|(NOT )?DEFERRABLE)"
)
_BEGINS = re.compile(rf"(BEGIN( WORK| TRANSACTION)?|START TRANSACTION)({_MODE})*")
_ENDS = re.compile(
    r"(COMMIT|END|ROLLBACK|ABORT)( WORK| TRANSACTION)?(?P<chain> AND CHAIN| AND NO CHAIN)?"
)


def chains(part: Part) -> bool:
    """Whether another transaction begins at the end of this one. Raises Refused for other words."""
    said = " ".join(part.words)
    if part.words[1:2] == ["PREPARED"]:
        raise Refused(
            states.FEATURE,
            f"{part.words[0]} PREPARED is not possible: there are no prepared transactions here, "
            f"and {part.words[0]} without it ends the one that is open",
        )
    begins = part.kind is Kind.BEGIN
    found = (_BEGINS if begins else _ENDS).fullmatch(said)
    if found is None:
        raise Refused(
            states.SYNTAX,
            f"{part.tag} has words that it cannot have: {said[:80]}; send {part.tag} alone",
        )
    return not begins and found["chain"] == " AND CHAIN"


def warning(state: str, message: str) -> list[tuple[str, str]]:
    """The fields of a notice."""
    return [("S", "WARNING"), ("V", "WARNING"), ("C", state), ("M", message)]
