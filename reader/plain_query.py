"""``blockstore query``, and a short path for command lines that need no parser.

Importing the parser takes about 40 to 60 ms of a small query's 410 ms. So plain words and the
options -o and --to are read here. Every other command line, and every wrong one, goes to the parser
(``verbs.py``); what is read here means the same there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, get_args

from blockstore.cli.failure import Usage

Form = Literal["table", "csv", "tsv", "json", "parquet", "arrow"]
"""The forms of a result."""

_OPTIONS = {"-o": "output", "--output": "output", "--to": "to"}


def at_once(words: Sequence[str]) -> Callable[[], None] | None:
    """The query of these words; None where the parser must read them."""
    plain: list[str] = []
    given: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            plain.append(word)
            continue
        name, value = _OPTIONS.get(word), next(rest, "-")
        if name is None or name in given or value.startswith("-"):
            return None
        if name == "output" and value not in get_args(Form):
            return None
        given[name] = value
    return partial(ask, plain, output=given.get("output", "table"), to=given.get("to"))


def ask(
    words: Sequence[str],
    *,
    version: int | None = None,
    as_of: str | None = None,
    tag: str | None = None,
    output: str = "table",
    to: str | None = None,
    row_ids: bool = False,
) -> None:
    """Run the SQL, which is the last word, over the tables that the other words name; see
    ``verbs.query``. Raises Usage."""
    if len(words) < 2:
        raise Usage(
            'query needs the URLs of tables and the SQL: blockstore query lake/flights "select …"'
        )
    *urls, sql = words
    given = [
        name
        for name, one in (("--version", version), ("--as-of", as_of), ("--tag", tag))
        if one is not None
    ]
    if len(given) > 1:
        raise Usage(f"{' and '.join(given)} were given: use one of them")
    if len(urls) > 1 and given not in ([], ["--as-of"]):
        raise Usage(
            f"{given[0]} is for one table, and several are named: use --as-of, or query one table "
            "at a time"
        )
    from blockstore.reader.forms.deliver import deliver
    from blockstore.reader.query import query

    moment = None if as_of is None else _moment_ms(as_of)
    rows = query(urls, sql, version=version, as_of=moment, tag=tag, row_ids=row_ids)
    deliver(rows, output, to)


def _moment_ms(text: str) -> int:
    from blockstore.cli.values import moment_ms

    return moment_ms(text, "--as-of")
