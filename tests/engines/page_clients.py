"""Runs in the environment of the foreign engines: the SQL of a guide's page, as it is printed.

Prints a JSON object: each query and its rows.

``page_clients.py duckdb BLOCKS`` or ``page_clients.py spark BLOCKS``; ``BLOCKS`` is a JSON list of
the page's blocks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

Ask = Callable[[str], list[Any]]


def duckdb(blocks: Sequence[str]) -> Ask:
    """A connection to which ``LOAD name`` means the extension's package."""
    from sessions import duckdb_with, extension

    connection = duckdb_with()

    def ask(statement: str) -> list[Any]:
        name = re.fullmatch(r"LOAD (\w+)", statement)
        asked = statement if name is None else f"LOAD '{extension(name[1])}'"
        return [list(row) for row in connection.execute(asked).fetchall()]

    return ask


def spark(blocks: Sequence[str]) -> Ask:
    """A session with the page's own configuration; its package is a file here."""
    from sessions import spark_with

    (command,) = [block for block in blocks if block.startswith("spark-sql")]
    given = dict(re.findall(r"--conf (\S+?)=(\S+)", command))
    assert len(given) == 5, given
    session = spark_with(given)
    return lambda statement: [list(row) for row in session.sql(statement).collect()]


def main() -> None:
    engine, given = sys.argv[1:]
    blocks = json.loads(given)
    ask = {"duckdb": duckdb, "spark": spark}[engine](blocks)
    answers = {}
    for block in blocks:
        if block.startswith("spark-sql"):
            continue
        for statement in filter(None, (part.strip() for part in block.split(";"))):
            found = ask(statement)
            if statement.startswith("SELECT"):
                answers[statement] = found
    print(json.dumps(answers, default=str))


if __name__ == "__main__":
    main()
