"""The rows of the catalogs that are the same for every caller and every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_HEAP, BTREE = 2, 403
_RESERVED = (
    "all analyse analyze and any array as asc asymmetric authorization binary both case cast check "
    "collate collation column concurrently constraint create cross current_catalog current_date "
    "current_role current_schema current_time current_timestamp current_user default deferrable "
    "desc distinct do else end except false fetch for foreign freeze from full grant group having "
    "ilike in initially inner intersect into is isnull join lateral leading left like limit "
    "localtime localtimestamp natural not notnull null offset on only or order outer overlaps "
    "placing primary references returning right select session_user similar some symmetric table "
    "tablesample then to trailing true union unique user using variadic verbose when where window "
    "with"
)

CONSTANT: Mapping[str, Sequence[dict[str, Any]]] = {
    "pg_am": (
        {"oid": _HEAP, "amname": "heap", "amtype": "t"},
        {"oid": BTREE, "amname": "btree", "amtype": "i"},
    ),
    "pg_get_keywords": [{"word": word} for word in _RESERVED.split()],
    "pg_tablespace": ({"oid": 1663, "spcname": "pg_default"},),
    "pg_timezone_names": ({"name": "UTC", "abbrev": "UTC", "utc_offset": "00:00:00"},),
}
