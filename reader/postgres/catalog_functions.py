"""The functions by which types are read and written. Clients learn from their names which types are
arrays; nothing calls them.

Rule: each has one name, so that a column of functions can be compared by it.
"""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.reader.postgres import types as t

_UNDERLINED = frozenset(
    {"date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid", "json"}
)
_FIRST = 1_242


def functions_of(kind: t.Type) -> Mapping[str, str]:
    """The functions of a type, by the columns of ``pg_type``."""
    return _named(kind.name, "_" if kind.name in _UNDERLINED else "")


def _named(name: str, mark: str) -> Mapping[str, str]:
    return {
        "typinput": f"{name}{mark}in",
        "typoutput": f"{name}{mark}out",
        "typreceive": f"{name}{mark}recv",
        "typsend": f"{name}{mark}send",
    }


OF_ARRAYS, OF_RECORDS = _named("array", "_"), _named("record", "_")
_NAMES = dict.fromkeys(
    name
    for functions in (OF_ARRAYS, OF_RECORDS, *map(functions_of, t.TYPES.values()))
    for name in functions.values()
)
NUMBERED = tuple(enumerate(_NAMES, start=_FIRST))
"""All of them, each with its number in ``pg_proc``."""


def index_property(place: str, name: str) -> str:
    """Whether a column of an index has a property, in the engine's SQL; NULL for one of columns
    that it does not have. Every index is a B-tree in ascending order."""
    return (
        f"CASE WHEN {place} IS NULL THEN NULL WHEN {name} IN ('asc', 'nulls_last', 'orderable', "
        f"'returnable', 'search_array', 'search_nulls') THEN TRUE WHEN {name} IN ('desc', "
        "'nulls_first', 'distance_orderable') THEN FALSE END"
    )
