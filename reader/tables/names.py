"""Table names in SQL: compared without the case of A to Z, as DuckDB does.

Rules:
- Only the letters A to Z are folded. Other foldings of Unicode (a Kelvin sign to a k) do not make
  two names equal: DuckDB does not fold them, and a name that it does not find among the tables must
  not be searched among files.
- A name that is hidden from the caller and one that does not exist give the same error, which
  suggests only names that the caller may see.
- A name with ``*`` in a list of allowed tables is a pattern: ``*`` is any text, also none. Names
  and patterns are compared with their case.
- ``!`` before a name or a pattern in such a list takes tables out of it, which a policy restricts
  (``policies.py``). Those are compared as ``alike`` does: to take out too many is safe. Who
  asks for one gets ``Restricted``; only a query with the policy gets the table.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

from blockstore.errors import Invalid
from blockstore.reader.errors import Restricted, UnknownTable

WITHOUT = "!"
"""Before what a list takes out."""
_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(name: str) -> str:
    """The name as DuckDB compares it."""
    return name.translate(_FOLD)


def alike(name: str) -> str:
    """A name as the restrictions of tables are compared: without case, and however its characters
    are composed. Two names that DuckDB takes for one are alike."""
    return unicodedata.normalize("NFKC", name).casefold()


def matches(patterns: Collection[str], name: str) -> bool:
    """Whether a list of names and patterns, compared as ``alike``, has the table."""
    known = alike(name)
    return any(
        _pattern(alike(one)).fullmatch(known) is not None if "*" in one else alike(one) == known
        for one in patterns
    )


def permits(allowed: Collection[str] | None, name: str) -> bool:
    """Whether a list of names and patterns permits a table; None permits all."""
    return allowed is None or (_lists(allowed, name) and not _restricts(allowed, name))


def listed_in(allowed: Collection[str] | None) -> tuple[list[str] | None, list[str]]:
    """What a list names, None for all tables, and what it takes out, for people to read."""
    if allowed is None:
        return None, []
    listed = [one for one in allowed if not one.startswith(WITHOUT)]
    out = [one.removeprefix(WITHOUT) for one in allowed if one.startswith(WITHOUT)]
    return None if out and listed == ["*"] else listed, out


def covers(allowed: Collection[str] | None, other: Collection[str] | None) -> bool:
    """Whether each table that another list permits is permitted here too; for certain."""
    if allowed is None or other is None:
        return allowed is None
    out = {one for one in allowed if one.startswith(WITHOUT)}
    for one in other:
        if one.startswith(WITHOUT):
            continue
        if not _lists(allowed, one) or ("*" in one and not out <= set(other)):
            return False
        if "*" not in one and _restricts(allowed, one):
            return False
    return True


def _lists(allowed: Collection[str], name: str) -> bool:
    """Whether a list names a table, or one of its patterns does."""
    if name.startswith(WITHOUT):
        return False
    if name in allowed:
        return True
    return any(
        _pattern(one).fullmatch(name) is not None
        for one in allowed
        if "*" in one and not one.startswith(WITHOUT)
    )


def _restricts(allowed: Collection[str], name: str) -> bool:
    return any(matches((one[1:],), name) for one in allowed if one.startswith(WITHOUT))


@lru_cache(maxsize=1_024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


class Names:
    """The tables that one caller may use."""

    def __init__(self, names: Iterable[str], allowed: Collection[str] | None = None) -> None:
        listed = sorted(names if allowed is None else (n for n in names if _lists(allowed, n)))
        out = [] if allowed is None else [name for name in listed if _restricts(allowed, name)]
        self._restricted = {folded(name): name for name in out}
        seen = [name for name in listed if folded(name) not in self._restricted]
        self._names: dict[str, list[str]] = {}
        for name in seen:
            self._names.setdefault(folded(name), []).append(name)
        self.all: tuple[str, ...] = tuple(seen)

    def __contains__(self, name: str) -> bool:
        return folded(name) in self._names or folded(name) in self._restricted

    def find(self, name: str) -> str:
        """The table's own spelling. Raises UnknownTable with similar names, Invalid if two tables
        have the same name in SQL, and Restricted for one that a policy restricts."""
        own = self._restricted.get(folded(name))
        if own is not None:
            raise Restricted(own)
        found = self._names.get(folded(name), [])
        if name in found or len(found) == 1:
            return name if name in found else found[0]
        if found:
            raise Invalid(
                f"{' and '.join(found)} have the same name in SQL, which ignores case: rename one "
                "of the tables"
            )
        import difflib

        near = difflib.get_close_matches(folded(name[:200]), self._names, n=3)
        nearest = tuple(one for key in near for one in self._names[key])
        hint = f"did you mean {nearest[0]}?" if nearest else f"the tables are {self._listed()}"
        raise UnknownTable(f"there is no table {name[:200]}: {hint}", nearest=nearest)

    def _listed(self) -> str:
        shown = ", ".join(self.all[:20])
        more = f" and {len(self.all) - 20} more" if len(self.all) > 20 else ""
        return f"{shown}{more}" if shown else "none"
