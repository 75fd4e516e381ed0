"""Runs files in the form of sqllogictest: each statement on Blockstore and on a plain DuckDB.

A file has records with an empty line between them:

- ``statement ok`` or ``statement error``, then the statement;
- ``query``, then a SELECT, and perhaps ``----`` and the expected rows, one a line, sorted;
- ``compact``: the tables of Blockstore are merged, and DuckDB does nothing.

After each statement the contents of all tables, the counts and the rows of RETURNING are compared.
``# tables: key ids plain`` at the top says which tables the file is for: those with the PRIMARY KEY
that it declares, with row ids in its place, or without any identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.transaction import Block, carry_out, grouped
from blockstore.table import Table

KINDS = ("key", "ids", "plain")
FILES = sorted(Path(__file__).parent.glob("*.test"))


@dataclass(frozen=True)
class Record:
    """One record of a file."""

    what: str
    sql: str
    line: int
    expected: tuple[str, ...] | None = None


def cases() -> Iterator[tuple[Path, str]]:
    """Each file with each kind of table that it is for."""
    for path in FILES:
        kinds = re.search(r"^# tables: (.*)$", path.read_text(), re.MULTILINE)
        assert kinds is not None, path
        yield from ((path, kind) for kind in kinds[1].split())


def records(path: Path) -> Iterator[Record]:
    """The records of a file."""
    lines = path.read_text().splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        begin = at
        while at < len(lines) and lines[at].strip():
            at += 1
        what, *rest = lines[begin:at]
        own = rest.index("----") if "----" in rest else len(rest)
        expected = tuple(rest[own + 1 :]) if own < len(rest) else None
        yield Record(what, "\n".join(rest[:own]), begin + 1, expected)


class Both:
    """The same tables in Blockstore and in DuckDB."""

    def __init__(self, session: Session, kind: str) -> None:
        self._session = session
        self._kind = kind
        self._duck = duckdb.connect()
        self._tables: list[str] = []

    def run(self, record: Record) -> None:
        """Run a record on both, and compare."""
        if record.what == "compact":
            self.compact()
        elif record.what == "query":
            self._query(record)
        elif record.what == "statement ok":
            self._ok(record)
        else:
            assert record.what == "statement error", record
            self._error(record)

    def compact(self) -> None:
        """Merge the tables of Blockstore."""
        for name in self._tables:
            table: Table = self._session.tables.open(name)
            compact_once(table, Settings(tier_blocks=2, work_dir=Path("/tmp")))

    def do(self, sql: str) -> Outcome:
        """Run a statement on Blockstore alone."""
        (text,) = self._session.parse(sql)
        return self._session.run(text, Doing())

    def duck(self, sql: str) -> None:
        """Run a statement on DuckDB alone."""
        self._duck.execute(sql)

    def transaction(self, table: str, sqls: list[str]) -> None:
        """Run statements as one version of a table of Blockstore, and one by one on DuckDB, which
        takes all back if one fails: both fail, or neither does."""
        before = self._session.tables.open(table).log.poll().version
        self.duck(f"CREATE OR REPLACE TEMP TABLE before AS FROM {table}")
        failed = [False, False]
        try:
            for sql in sqls:
                self.duck(sql)
        except duckdb.Error:
            failed[0] = True
            self.duck(f"DELETE FROM {table}")
            self.duck(f"INSERT INTO {table} FROM before")
        text = ";\n".join(["BEGIN", *sqls, "COMMIT"])
        try:
            (block,) = grouped(self._session.parse(text))
            assert isinstance(block, Block)
            carry_out(self._session, block, Doing())
        except BlockstoreError:
            failed[1] = True
        assert failed[0] == failed[1], sqls
        versions = self._session.tables.open(table).log.poll().version - before
        assert versions <= (0 if failed[0] else 1), sqls

    def compare(self, context: object = None) -> None:
        """The contents of all tables are the same."""
        for name in self._tables:
            ours = sorted_rows(self.do(f"SELECT * FROM {name}").to_arrow())
            theirs = self._rows(f"SELECT * FROM {name}")
            assert ours == theirs, (context, name)

    def _query(self, record: Record) -> None:
        ours = sorted_rows(self.do(record.sql).to_arrow())
        assert ours == self._rows(record.sql), record
        if record.expected is not None:
            shown = tuple(" ".join(map(str, row.values())) for row in ours)
            assert shown == record.expected, record

    def _ok(self, record: Record) -> None:
        made = re.match(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", record.sql)
        outcome = self.do(self._own(record.sql) if made else record.sql)
        theirs = self._rows(self._theirs(record.sql) if made else record.sql)
        if made and made[1] not in self._tables:
            self._tables.append(made[1])
        if "RETURNING" in record.sql:
            assert sorted_rows(outcome.to_arrow()) == theirs, record
            count = len(theirs)
        else:
            count = theirs[0].get("Count", 0) if theirs else 0
        if not made:
            counts = outcome.counts
            assert sum(counts.values()) - counts.get("unchanged", 0) == count, (record, outcome)
        self.compare(record)

    def _error(self, record: Record) -> None:
        for run in (self.do, self._duck.execute):
            try:
                run(record.sql)
            except (BlockstoreError, duckdb.Error):
                continue
            raise AssertionError((record, run))
        self.compare(record)

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of DuckDB."""
        found = self._duck.execute(sql)
        names = [column[0] for column in found.description or ()]
        rows = found.fetchall() if names else []
        return sorted((dict(zip(names, row, strict=True)) for row in rows), key=repr)

    def _theirs(self, sql: str) -> str:
        return sql if self._kind == "key" else sql.replace(" PRIMARY KEY", "")

    def _own(self, sql: str) -> str:
        sql = self._theirs(sql)
        if self._kind != "ids":
            return sql
        before, found, query = sql.partition(" AS SELECT")
        return f"{before} WITH (row_ids = true){found}{query}"


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in one order."""
    return sorted(table.to_pylist(), key=repr)
