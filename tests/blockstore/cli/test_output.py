"""What is printed: rounded for people, exact for machines."""

from __future__ import annotations

import csv
import io

import pytest

from blockstore.cli.output import Column, count, counted, iso, rows_as, show_table, size, span


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (7_340_032, "7.0 MiB"),
        (1 << 40, "1.0 TiB"),
        (1 << 60, "1,024.0 PiB"),
    ],
)
def test_sizes_for_people(number: int, text: str) -> None:
    assert size(number) == text


def test_one_thing_is_singular() -> None:
    shown = [counted(number, "row") for number in (0, 1, -1, 1_000)]
    assert shown == ["0 rows", "1 row", "-1 row", "1,000 rows"]


def test_counts_and_times() -> None:
    assert count(336_776) == "336,776"
    assert iso(None) == ""
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert iso(-1) == "1969-12-31T23:59:59.999Z"
    assert iso(10**18) == f"{10**18} ms"
    assert span(0, 3_600_000) == "1970-01-01 00:00 … 01:00"
    assert span(0, 90_000_000) == "1970-01-01 00:00 … 1970-01-02 01:00"


def test_a_table_in_a_pipe_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(
        [Column("a", "A"), Column("b", "B", right=True, fold=True)],
        [{"a": "x" * 300, "b": "[1] y"}],
    )
    lines = capsys.readouterr().out.splitlines()
    assert "x" * 300 in lines[-1]
    assert "[1] y" in lines[-1]


def test_csv_holds_every_value_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "n": 1,
        "none": None,
        "flag": True,
        "text": 'a, "b"\nc',
        "map": {"k": [1]},
        "list": ["x"],
    }
    rows_as("csv", [row], list(row))
    header, values = csv.reader(io.StringIO(capsys.readouterr().out))
    assert dict(zip(header, values, strict=True)) == {
        "n": "1",
        "none": "",
        "flag": "true",
        "text": 'a, "b"\nc',
        "map": '{"k":[1]}',
        "list": '["x"]',
    }
