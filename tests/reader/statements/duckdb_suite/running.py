"""One of DuckDB's files on a session of Blockstore, and what came out of each of its records.

- A record *passed* if the statement did what DuckDB's does: it succeeded, with the rows that the
  file names, or failed where the file says so.
- It was *refused* if Blockstore says in a sentence that it does not have it. If it would have
  changed something, the rest of the file is *left*: it speaks of tables that are otherwise now.
- It was *otherwise* if Blockstore does something else, and its guides say so: ``OTHERWISE``.
- It *failed* in every other case.
- Settings of DuckDB are *skipped*: they change no row.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import duckdb
import pyarrow as pa

from blockstore.errors import BlockstoreError
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import Kind
from blockstore.reader.statements.transaction import Transaction
from tests.reader.statements.duckdb_suite.parsing import Record, records

__all__ = ["Found", "Result", "run_file"]

SETTINGS = re.compile(
    r"\s*(PRAGMA|SET|RESET|FORCE|CHECKPOINT|ANALYZE|VACUUM|USE|LOAD)\b", re.IGNORECASE
)
IGNORED = {"tags", "load", "restart", "sleep", "reconnect", "set", "reset", "endloop", "continue"}
"""Of the runner of DuckDB alone: tables of Blockstore are durable."""
_SORTS = ("nosort", "rowsort", "valuesort")
HARMLESS = {
    "vector_size",
    "noforcestorage",
    "skip_reload",
    "no_alternative_verify",
    "noalternativeverify",
    "64bit",
    "no_vector_verification",
    "no_extension_autoloading",
    "no_latest_storage",
}
"""What a file may require that says nothing of Blockstore."""
OTHERWISE = {
    ("test_add_col_default.test", 14): "a column that is added has no value in existing rows",
}
"""What is documented to be otherwise, by file and line."""
CREATED = re.compile(
    r"(CREATE\s+(?:OR\s+REPLACE\s+)?TABLE\b[^;]*?)(\s+AS\s+.*|;?\s*)$", re.I | re.S
)


class Result(StrEnum):
    """What came out of a record."""

    PASSED = "passed"
    REFUSED = "refused"
    LEFT = "left"
    SKIPPED = "skipped"
    OTHERWISE = "otherwise"
    FAILED = "failed"


@dataclass(frozen=True)
class Found:
    """What came out of one record, and why."""

    result: Result
    line: int
    sql: str
    why: str = ""


def run_file(path: Path, folder: Path, *, ids: bool = False) -> list[Found]:
    """Run a file in an empty folder. With ``ids``, rows of its tables without a key have ids."""
    found: list[Found] = []
    with opened(str(folder)) as session:
        file = _File(session, ids=ids)
        for record in records(path):
            try:
                one = file.run(record)
            except _Ends as end:
                found.append(Found(Result.LEFT, record.line, record.sql, str(end)))
                break
            if one is None:
                continue
            known = OTHERWISE.get((path.name, record.line))
            if known is not None and one.result is Result.FAILED:
                one = replace(one, result=Result.OTHERWISE, why=known)
            found.append(one)
            if one.result is Result.REFUSED and not _reads(record.sql):
                file.end = one.why
    return found


class _Ends(Exception):
    """The rest of a file does not apply."""


class _File:
    def __init__(self, session: Session, *, ids: bool) -> None:
        self._session = session
        self._ids = ids
        self._open: dict[str, Transaction] = {}
        self._labels: dict[str, list[str]] = {}
        self._skips = False
        self._nulls_first = False
        self._at_begin = False
        """Whether a transaction reads all tables as they are when it begins."""
        self._tables: set[str] = set()
        self.end: str | None = None
        """Why what follows is left."""

    def run(self, record: Record) -> Found | None:
        """Run one record; None for one that is no statement. Raises _Ends."""
        what, *words = record.words
        if what == "mode":
            self._skips = {"skip": True, "unskip": False}.get(words[0], self._skips)
            return None
        if self._skips or (what in IGNORED and "readonly" not in words):
            return None
        if what == "halt":
            raise _Ends("the file ends here")
        if what == "require" and words[0] in HARMLESS:
            return None
        if what not in ("statement", "query"):
            raise _Ends(f"needs {what} {words[0] if words else ''}".strip())
        if self.end is not None:
            return Found(Result.LEFT, record.line, record.sql, self.end)
        if SETTINGS.match(record.sql):
            self._nulls_first |= "default_null_order" in record.sql
            self._at_begin |= "immediate_transaction_mode=true" in record.sql
            return Found(Result.SKIPPED, record.line, record.sql, "a setting of DuckDB")
        try:
            why = self._statement(record) if what == "statement" else self._query(record)
        except BlockstoreError as error:
            return Found(Result.REFUSED, record.line, record.sql, str(error))
        except _Ends:
            raise
        except Exception as error:
            return Found(Result.FAILED, record.line, record.sql, f"{type(error).__name__}: {error}")
        result = Result.FAILED if why else Result.PASSED
        return Found(result, record.line, record.sql, why or "")

    def _statement(self, record: Record) -> str | None:
        what, connection = record.words[1], " ".join(record.words[2:])
        if what == "ok":
            self._did(record.sql, connection)
            return None
        try:
            self._did(record.sql, connection)
        except BlockstoreError:
            return None
        if what == "maybe":
            return None
        if self._open:
            raise _Ends("DuckDB refuses the second writer of a row, Blockstore the second commit")
        return "it succeeded, and DuckDB refuses it"

    def _query(self, record: Record) -> str | None:
        kinds, *words = record.words[1:]
        sort, connection = "nosort", ""
        if words and words[0] in _SORTS:
            sort = words[0]
        elif words:
            connection = words[0]
        label = words[1] if len(words) > 1 else None
        outcomes = self._did(record.sql, connection)
        rows = _shown(outcomes[-1])
        expected = list(record.expected or ())
        if any(re.search(r"<!?(REGEX|FILE)>", line) for line in expected):
            raise _Ends("compares with a pattern or a file")
        if rows and len(rows[0]) != len(kinds):
            return f"{len(rows[0])} columns, expected {len(kinds)}"
        values = [value for row in rows for value in row]
        if label is not None and self._labels.setdefault(label, values) != values:
            return f"other rows than those of {label}"
        if record.expected is None:
            return None
        ordered = sort == "nosort" and re.search(r"\border\s+by\b", record.sql, re.IGNORECASE)
        hashed = len(rows) > 1 and " values hashing to " in "".join(expected)
        if hashed and sort == "nosort" and not ordered:
            raise _Ends("has the hash of rows in an order that no statement asks for")
        if self._nulls_first and "NULL" in values:
            ordered = None
        return _compared(rows, expected, len(kinds), sort=None if ordered else sort)

    def _did(self, sql: str, connection: str) -> list[Outcome]:
        found = []
        for text in self._session.parse(self._own(sql)):
            transaction = self._open.get(connection)
            match text.kind:
                case Kind.BEGIN if transaction is None:
                    self._open[connection] = begun = Transaction(self._session, Doing())
                    if self._at_begin:
                        begun.pin(self._tables)
                    outcome = Outcome(statement=text.kind)
                case Kind.COMMIT if transaction is not None:
                    outcome = self._open.pop(connection).commit()
                case Kind.ROLLBACK if transaction is not None:
                    del self._open[connection]
                    outcome = Outcome(statement=text.kind)
                case _ if transaction is not None:
                    outcome = transaction.run(text)
                case _:
                    outcome = self._session.run(text, Doing())
            if outcome.rows is not None:
                outcome = outcome.with_rows(outcome.to_arrow().to_reader())
            if text.kind is Kind.CREATE and outcome.table is not None:
                self._tables.add(outcome.table)
            elif text.kind is Kind.DROP and outcome.table is not None:
                self._tables.discard(outcome.table)
            found.append(outcome)
        return found

    def _own(self, sql: str) -> str:
        """The statement, with row ids for the rows of a new table without a key."""
        made = CREATED.fullmatch(sql) if self._ids else None
        if made is None or re.search(r"PRIMARY\s+KEY|UNIQUE", sql, re.IGNORECASE):
            return sql
        return f"{made[1]} WITH (row_ids = true){made[2]}"


def _reads(sql: str) -> bool:
    return re.match(r"\s*(SELECT|FROM|VALUES|EXPLAIN|DESCRIBE|SHOW)\b", sql, re.I) is not None


def _shown(outcome: Outcome) -> list[list[str]]:
    """The rows as DuckDB's runner writes them."""
    if outcome.rows is None:
        counts = outcome.counts
        return [[str(sum(counts.values()) - counts.get("unchanged", 0))]]
    table = outcome.to_arrow()
    if not table.num_rows:
        return []
    rows: pa.Table = table.rename_columns([f"c{n}" for n in range(table.num_columns)])
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        texts = connection.execute("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM rows").fetchall()
    return [["NULL" if one is None else one or "(empty)" for one in row] for row in texts]


def _compared(
    rows: list[list[str]], expected: list[str], width: int, *, sort: str | None
) -> str | None:
    """What is wrong with the rows; without an order they may come in any."""
    values = [value for row in rows for value in row]
    if expected and (hashed := re.fullmatch(r"(\d+) values hashing to (\w+)", expected[0])):
        if sort == "valuesort":
            values = sorted(values)
        elif sort is not None:
            values = [value for row in sorted(rows) for value in row]
        text = "".join(f"{value}\n" for value in values)
        same = hashlib.md5(text.encode()).hexdigest() == hashed[2]
        return None if same and len(values) == int(hashed[1]) else "another hash"
    wanted = [one.split("\t") for one in expected]
    if any(len(one) != width for one in wanted) or (width > 1 and len(wanted) != len(rows)):
        flat = [value for one in wanted for value in one]
        wanted = [flat[at : at + width] for at in range(0, len(flat), width)]
    if len(wanted) != len(rows):
        return f"{len(rows)} rows, expected {len(wanted)}: {rows[:3]}, expected {wanted[:3]}"
    if sort == "valuesort":
        rows = [[value] for value in sorted(values)]
        wanted = [[value] for value in sorted(value for one in wanted for value in one)]
    elif sort is not None and not _all_same(rows, wanted):
        rows, wanted = sorted(rows), sorted(wanted)
    if _all_same(rows, wanted):
        return None
    return f"{rows[:3]}, expected {wanted[:3]}"


def _all_same(rows: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> bool:
    return all(
        len(row) == len(one) and all(map(_same, row, one))
        for row, one in zip(rows, wanted, strict=True)
    )


def _same(value: str, wanted: str) -> bool:
    """As DuckDB's runner compares: numbers by value, a truth value also as 1 or 0."""
    if value == wanted or {value, wanted} in ({"true", "1"}, {"false", "0"}):
        return True
    try:
        return math.isclose(float(value), float(wanted), rel_tol=0.01)
    except ValueError:
        return False
