"""Parse the text of one option; used by reads, writes, streams and merges.

- Option names are case-insensitive, as everywhere in Spark. An unknown name is an error that names
  the nearest known one.
- An error names the option, the value found and the value expected.
- Columns are separated by commas, or given as a JSON list where a name contains a comma or begins
  or ends with a space. Labels are ``key=value`` pairs separated by commas.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence

from blockstore.errors import Invalid
from blockstore.spark.idioms import INSTEAD

_SIZES = {
    "": 1,
    "b": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}
_JSON_LIST = '["'
_ALIASES = {"replacewhere": "where", "versionasof": "version", "mergeschema": "evolve"}
_CATALOG = (
    "Spark does not pass a data source the URL of a table in its catalog (saveAsTable, insertInto, "
    "CREATE TABLE): use save and load, or in SQL "
    "CREATE TEMPORARY VIEW flights USING blockstore OPTIONS (path 's3://lake/flights')."
)
_OF_CATALOG = "provider"
"""A property of tables in Spark's catalog, which Spark passes on as if it were an option."""
_YES_NO = {"true": True, "false": False}


def known(options: Mapping[str, str], every: tuple[str, ...], verb: str) -> dict[str, str]:
    """The options by their lower-case names; names that other table formats use are translated.
    Raises Invalid for one that is not among ``every``."""
    given: dict[str, str] = {}
    for said, value in options.items():
        name = _ALIASES.get(said.lower(), said.lower())
        if name in given and given[name] != value:
            raise Invalid(
                f"option {said!r} is another name for {name!r}, and the two have different values: "
                "keep one of them."
            )
        given[name] = value
    if _OF_CATALOG in given:
        raise Invalid(_CATALOG)
    for name in given:
        if name not in every:
            near = difflib.get_close_matches(name, every, n=1)
            meant = INSTEAD.get(name) or (
                f"did you mean {near[0]!r}?"
                if near
                else "find its replacement in the Spark guide before you remove it."
            )
            raise Invalid(
                f"blockstore has no {verb} option {name!r}: expected one of {', '.join(every)}; "
                f"{meant}"
            )
    return given


def checked_url(url: str) -> str:
    """The URL of a table that several processes can reach. Raises Invalid for ``memory://``."""
    if url.lower().startswith("memory://"):
        raise Invalid(
            f"{url} is in the memory of one process, and Spark's tasks run in others: use a folder "
            "or an s3:// URL."
        )
    return url


def table_url(given: Mapping[str, str], method: str) -> str:
    """The URL of the table that the options name, for the user's call of ``method``.

    Raises Invalid if there is none.
    """
    url = given.get("path", "")
    if not url:
        raise Invalid(
            f"no table URL is given: pass it, as in .{method}('s3://lake/flights'). {_CATALOG}"
        )
    return checked_url(url)


def integer(text: str, name: str, *, least: int) -> int:
    """A whole number of at least ``least``. Raises Invalid."""
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise Invalid(f"option {name}={text!r}: expected a whole number of at least {least}.")
    return int(text)


def names(text: str, name: str) -> tuple[str, ...]:
    """Column names, separated by commas or as a JSON list. Raises Invalid if one is repeated."""
    if text.startswith(_JSON_LIST):
        parts = _from_json(text, name)
    else:
        parts = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    if "" in parts or len(set(parts)) != len(parts):
        raise Invalid(
            f"option {name}={text!r}: expected distinct column names separated by commas."
        )
    return parts


def names_text(columns: Sequence[str]) -> str:
    """The text that ``names`` parses back into exactly these, with commas, spaces and quotes."""
    return json.dumps(list(columns)) if columns else ""


def column_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Columns as a function argument gives them: several names, or one string."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def labels(text: str) -> dict[str, str]:
    """``key=value`` pairs separated by commas, each key once. Raises Invalid."""
    found: dict[str, str] = {}
    for pair in text.split(",") if text.strip() else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals:
            raise Invalid(
                f"option labels={text!r}: expected key=value pairs separated by commas, as in "
                "'cluster=eu1'."
            )
        if key in found:
            raise Invalid(f"option labels={text!r}: label {key!r} is given twice; keep one value.")
        found[key] = value
    return found


def flag(given: Mapping[str, str], name: str) -> bool:
    """True or false; false if the option is not given. Raises Invalid."""
    value = given.get(name, "false").lower()
    if value not in _YES_NO:
        raise Invalid(f"option {name}={given[name]!r}: expected true or false.")
    return _YES_NO[value]


def size(given: Mapping[str, str], name: str, default: int) -> int:
    """A number of bytes such as ``64MiB``. Raises Invalid."""
    text = given.get(name)
    if text is None:
        return default
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text.strip()[len(digits) :].strip().lower()
    if not (digits.isascii() and digits.isdigit()) or unit not in _SIZES or int(digits) == 0:
        raise Invalid(f"option {name}={text!r}: expected a size such as '64MiB'.")
    return int(digits) * _SIZES[unit]


def size_if_given(given: Mapping[str, str], name: str) -> int | None:
    """The size, or None if the option is not given."""
    return size(given, name, 0) if name in given else None


def _from_json(text: str, name: str) -> tuple[str, ...]:
    try:
        parts = json.loads(text)
    except json.JSONDecodeError:
        parts = None
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise Invalid(
            f"option {name}={text!r}: it begins like a JSON list; expected a list of column names "
            f"such as {json.dumps(['a', 'b,c'])!r}."
        )
    return tuple(parts)
