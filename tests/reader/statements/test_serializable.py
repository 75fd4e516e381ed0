"""Statements on a table whose isolation is ``serializable``: what they have read of it must still
be so at their commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import blockstore as bs
from blockstore.index.log import Log
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.transaction import Transaction

MERGE = (
    "MERGE INTO shift USING (VALUES (1, 5)) s(id, n) ON shift.id = s.id "
    "WHEN MATCHED THEN UPDATE SET n = s.n"
)
ISOLATIONS = ["serializable", "write-serializable"]
LEAVE = (
    "UPDATE shift SET on_call = false WHERE id = {id} "
    "AND (SELECT count(*) FROM shift WHERE on_call) > 1"
)


def make(lake: Path, isolation: str) -> str:
    bs.sql(
        str(lake),
        "CREATE TABLE shift (id BIGINT PRIMARY KEY, on_call BOOLEAN, n INTEGER) "
        f"WITH (isolation = '{isolation}');"
        "INSERT INTO shift VALUES (1, true, 1), (2, true, 2), (3, false, 30)",
    )
    return str(lake)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Does something before the next commit of any handle."""
    real = Log.commit

    def set_(do: Callable[[], object]) -> None:
        def commit(log: Log, change: Any) -> Any:
            monkeypatch.setattr(Log, "commit", real)
            do()
            return real(log, change)

        monkeypatch.setattr(Log, "commit", commit)

    return set_


def blocks(lake: str) -> int:
    """All blocks that were written, those of plans that were not committed too."""
    return sum(1 for _ in Path(lake, "shift").glob("*/meta.json"))


def rows(lake: str, what: str) -> list[tuple[object, ...]]:
    found = bs.sql(lake, f"SELECT {what} FROM shift ORDER BY id").to_arrow().to_pylist()
    return [tuple(row.values()) for row in found]


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("form", ["{}", "BEGIN; {}; COMMIT"])
def test_two_statements_that_read_each_others_row(
    tmp_path: Path, meanwhile: Any, isolation: str, form: str
) -> None:
    lake = make(tmp_path, isolation)
    meanwhile(lambda: bs.sql(lake, form.format(LEAVE.format(id=2))))
    bs.sql(lake, form.format(LEAVE.format(id=1)))
    still = rows(lake, "on_call")
    assert still == [(isolation == "serializable",), (False,), (False,)]


@pytest.mark.parametrize(
    ("sql", "others", "again"),
    [
        ("UPDATE shift SET n = n + 1 WHERE n < 10", "(7, true, 5)", True),
        ("UPDATE shift SET n = n + 1 WHERE n < 10", "(7, true, 50)", False),
        ("UPDATE shift AS s SET n = n + 1 WHERE s.n < 10 RETURNING *", "(7, true, 50)", False),
        ("UPDATE shift SET n = n + 1 WHERE n < 10 AND abs(n) > 0", "(7, true, 50)", False),
        ("UPDATE shift SET n = (SELECT max(n) FROM shift) WHERE id = 1", "(7, true, 50)", True),
        ("DELETE FROM shift WHERE n < 10", "(7, true, 5)", True),
        ("DELETE FROM shift WHERE n < 10", "(7, true, 50)", False),
        ("TRUNCATE shift", "(7, true, 50)", True),
        ("INSERT INTO shift VALUES (8, true, 1)", "(7, true, 50)", False),
        ("INSERT INTO shift SELECT 8, true, sum(n) FROM shift", "(7, true, 50)", True),
        ("INSERT INTO shift VALUES (1, true, 9), (8, true, 1) ON CONFLICT DO NOTHING",
         "(1, true, 8) ON CONFLICT DO UPDATE SET n = 8", True),
        (MERGE, "(7, true, 50)", True),
    ],
)  # fmt: skip
def test_what_a_statement_has_read(
    tmp_path: Path, meanwhile: Any, sql: str, others: str, again: bool
) -> None:
    lake = make(tmp_path, "serializable")
    meanwhile(lambda: bs.sql(lake, f"INSERT INTO shift VALUES {others}"))
    bs.sql(lake, sql)
    assert blocks(lake) == 1 + 1 + (2 if again else 1)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("reads", ["before", "after"])
def test_what_a_typed_transaction_has_queried(tmp_path: Path, isolation: str, reads: str) -> None:
    lake = make(tmp_path, isolation)
    with opened(lake) as session:
        transaction = Transaction(session, Doing())
        query, change = session.parse(
            "SELECT sum(n) FROM shift; UPDATE shift SET n = 33 WHERE id = 3"
        )
        for text in (query, change) if reads == "before" else (change, query):
            outcome = transaction.run(text)
            if outcome.rows is not None:
                outcome.rows.read_all()
        bs.sql(lake, "UPDATE shift SET n = 20 WHERE id = 2")
        if isolation == "serializable":
            with pytest.raises(bs.Conflict, match="'serializable' does not allow"):
                transaction.commit()
        else:
            transaction.commit()
    assert rows(lake, "n")[2] == ((30,) if isolation == "serializable" else (33,))
