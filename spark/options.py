"""What one option's text says, checked: shared by reads, writes and streams.

- Option names are case-insensitive, as everywhere in Spark; a name that nobody reads is an error
  that names the nearest known one.
- An error names the option, what was found and what was expected.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence

from blockstore.errors import Invalid

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
_ALIASES = {"replacewhere": "where", "versionasof": "version"}
_INSTEAD = {
    "partitionoverwritemode": "a table has no partitions, and without a condition an overwrite "
    "replaces all rows: say which with "
    "option('where', \"day = '2024-01-01'\").",
    "timestampasof": "use 'as_of', where a time without a zone is UTC and not the session's.",
}
"""What other formats call it, and what to use: to drop such an option would be another write, or
another read."""
_CATALOG = (
    "Spark tells a data source no URL of a table in its catalog (saveAsTable, insertInto, CREATE "
    "TABLE): use save and load, or in SQL "
    "CREATE TEMPORARY VIEW flights USING blockstore OPTIONS (path 's3://lake/flights')."
)
_OF_CATALOG = "provider"
"""A property of tables in Spark's catalog, which Spark hands on as if it were an option."""
_YES_NO = {"true": True, "false": False}


def known(options: Mapping[str, str], every: tuple[str, ...], verb: str) -> dict[str, str]:
    """The options by their lower-case names; what other table formats call ours is understood.
    Raises Invalid for one that is not among ``every``."""
    given: dict[str, str] = {}
    for said, value in options.items():
        name = _ALIASES.get(said.lower(), said.lower())
        if name in given and given[name] != value:
            raise Invalid(
                f"option {said!r} is another name of {name!r}, and both are given with different "
                "values: keep one."
            )
        given[name] = value
    if _OF_CATALOG in given:
        raise Invalid(_CATALOG)
    for name in given:
        if name not in every:
            near = difflib.get_close_matches(name, every, n=1)
            instead = _INSTEAD.get(
                name, "look up what it shall do in the Spark guide before you drop it."
            )
            meant = f"did you mean {near[0]!r}?" if near else instead
            raise Invalid(
                f"blockstore has no {verb} option {name!r}: expected one of {', '.join(every)}; "
                f"{meant}"
            )
    return given


def checked_url(url: str) -> str:
    """The URL of a table that several processes can reach; raises Invalid for one that lives in one
    process."""
    if url.lower().startswith("memory://"):
        raise Invalid(
            f"{url} lives in the memory of one process and Spark's tasks run in others: use a "
            "folder or an s3:// URL."
        )
    return url


def table_url(given: Mapping[str, str], method: str) -> str:
    """The table that the options name;

    ``method`` is what the user calls. Raises Invalid for none.
    """
    url = given.get("path", "")
    if not url:
        raise Invalid(
            f"no table is named: give its URL, as in .{method}('s3://lake/flights'). {_CATALOG}"
        )
    return checked_url(url)


def whole(text: str, name: str, *, least: int) -> int:
    """A whole number of at least ``least``. Raises Invalid."""
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise Invalid(f"option {name}={text!r}: expected a whole number of at least {least}.")
    return int(text)


def names(text: str, name: str) -> tuple[str, ...]:
    """Names separated by commas, or a JSON list of them, which takes each as it is; each once.

    Raises Invalid.
    """
    if text.startswith(_JSON_LIST):
        parts = _from_json(text, name)
    else:
        parts = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    if "" in parts or len(set(parts)) != len(parts):
        raise Invalid(
            f"option {name}={text!r}: expected different column names separated by commas."
        )
    return parts


def names_text(columns: Sequence[str]) -> str:
    """The text that ``names`` reads back as exactly these, whatever commas, spaces and quotes they
    hold."""
    return json.dumps(list(columns)) if columns else ""


def column_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Columns as a caller of a function names them: several, or one by its bare name."""
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
            raise Invalid(
                f"option labels={text!r}: label {key!r} is given twice; keep one of its values."
            )
        found[key] = value
    return found


def flag(given: Mapping[str, str], name: str) -> bool:
    """True or false; false where it is not given. Raises Invalid."""
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
    """The same, or None where the option is not given."""
    return size(given, name, 0) if name in given else None


def _from_json(text: str, name: str) -> tuple[str, ...]:
    try:
        parts = json.loads(text)
    except json.JSONDecodeError:
        parts = None
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise Invalid(
            f"option {name}={text!r}: expected a JSON list of column names, since it begins like "
            "one, as in "
            f"{json.dumps(['a', 'b,c'])!r}."
        )
    return tuple(parts)
