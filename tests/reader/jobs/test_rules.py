"""An uploaded file with a row that breaks a rule of a column fails its job, with line, column,
value and rule; a column with a default may be missing."""

from __future__ import annotations

import pytest

from tests.reader.jobs.gateways import HEADER, Lake

JOB = "01JD0000000000000000000000"


def lake_with_rules() -> Lake:
    lake = Lake.make()
    lake.table().alter(columns={"n": {"check": "n < 100"}, "s": {"max_length": 3, "default": "no"}})
    return lake


@pytest.mark.parametrize(
    ("row", "column", "value", "rule"),
    [
        ("2026-01-01,100,a", "n", "100", "n < 100 (its check)"),
        ("2026-01-01,1,abcd", "s", "'abcd'", "at most 3 characters (its max_length)"),
    ],
)
def test_a_broken_rule_writes_nothing_and_is_named(
    row: str, column: str, value: str, rule: str
) -> None:
    lake = lake_with_rules()
    gateway = lake.gateway(1)
    assert gateway.upload(JOB, f'{HEADER}2026-01-01,1,"a\n"\n{row}\n2026-01-01,2,b\n')
    (outcome,) = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "bad_row"
    bad = {"line": 4, "column": column, "value": value, "rule": rule}
    assert outcome.failure.detail == {**bad, "lines": [bad]}
    assert "line 4: column" in outcome.failure.message
    assert lake.rows() == []


def test_a_missing_column_gets_its_default() -> None:
    lake = lake_with_rules()
    gateway = lake.gateway(1)
    assert gateway.upload(JOB, "n,time\n5,2026-01-01\n")
    (outcome,) = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is None
    assert lake.table().snapshot().scan(columns=["s"]).to_table()["s"].to_pylist() == ["no"]
