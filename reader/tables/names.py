"""Table names in SQL: compared without the case of A to Z, as DuckDB does.

Rules:
- Only the letters A to Z are folded. Other foldings of Unicode (a Kelvin sign to a k) do not make
  two names equal: DuckDB does not fold them, and a name that it does not find among the tables must
  not be searched among files.
- A name that is hidden from the caller and one that does not exist give the same error, which
  suggests only names that the caller may see.
- A name with ``*`` in a list of allowed tables is a pattern: ``*`` is any text, also none. Names
  and patterns are compared with their case.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable
from functools import lru_cache

from blockstore.errors import Invalid
from blockstore.reader.errors import UnknownTable

_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(name: str) -> str:
    """The name as DuckDB compares it."""
    return name.translate(_FOLD)


def permits(allowed: Collection[str] | None, name: str) -> bool:
    """Whether a list of names and patterns permits a table; None permits all. A pattern as ``name``
    is permitted if every table of it is."""
    if allowed is None or name in allowed:
        return True
    return any(_pattern(one).fullmatch(name) is not None for one in allowed if "*" in one)


@lru_cache(maxsize=1_024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


class Names:
    """The tables that one caller may use."""

    def __init__(self, names: Iterable[str], allowed: Collection[str] | None = None) -> None:
        seen = sorted(name for name in names if permits(allowed, name))
        self._names: dict[str, list[str]] = {}
        for name in seen:
            self._names.setdefault(folded(name), []).append(name)
        self.all: tuple[str, ...] = tuple(seen)

    def __contains__(self, name: str) -> bool:
        return folded(name) in self._names

    def find(self, name: str) -> str:
        """The table's own spelling. Raises UnknownTable with similar names, and Invalid if two
        tables have the same name in SQL."""
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
