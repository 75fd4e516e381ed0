"""An uploaded file with a quote that is not closed at its value's end fails its job, with line and
column."""

from __future__ import annotations

import pytest

from tests.reader.jobs.gateways import HEADER, Lake

JOB = "01JD0000000000000000000000"


@pytest.mark.parametrize(
    ("value", "line", "rule"),
    [
        ('"never\n', 3, "a quote that opens a value is closed"),
        ('"closed" too early\n', 3, "a closing quote ends its value"),
    ],
)
def test_an_open_quote_writes_nothing_and_is_named(value: str, line: int, rule: str) -> None:
    lake = Lake.make()
    gateway = lake.gateway(1)
    text = f"{HEADER}2026-01-01,1,a\n2026-01-01,2,{value}" + "2026-01-01,3,c\n" * 3
    assert gateway.upload(JOB, text)
    (outcome,) = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "bad_row"
    bad = {"line": line, "column": "s", "value": None, "rule": rule}
    assert outcome.failure.detail == {**bad, "lines": [bad]}
    assert lake.rows() == []
