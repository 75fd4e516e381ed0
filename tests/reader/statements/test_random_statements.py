"""The long series of statements, in small: what they compare, and that they find a difference."""

from __future__ import annotations

import pytest

from tests.reader.statements import many_writers, random_statements
from tests.reader.statements.logic import KINDS, Both


@pytest.mark.parametrize("kind", KINDS)
def test_random_statements_leave_what_they_leave_in_duckdb(kind: str) -> None:
    found = random_statements.run(kind, seed=5, wanted=15)
    assert found["statements"] >= 15
    assert found["versions"] > 5


def test_a_statement_that_one_of_both_has_not_carried_out_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    does = Both.duck
    monkeypatch.setattr(
        Both, "duck", lambda self, sql: None if sql.startswith("UPDATE") else does(self, sql)
    )
    with pytest.raises(AssertionError):
        random_statements.run("ids", seed=5, wanted=15)


@pytest.mark.parametrize("kind", KINDS)
def test_each_statement_of_many_writers_counts_once(kind: str) -> None:
    found = many_writers.run(kind, writers=3, count=3, seed=2)
    assert found["done"] + found["refused"] == 9
