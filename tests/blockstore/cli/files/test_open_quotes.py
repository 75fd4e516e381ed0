"""A quote that is not closed at its value's end: the file is refused, whatever it is brought to; no
row is lost in a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blockstore.cli.conftest import Command

SCHEMA = "id:int, name:string"
FAULTS = [
    ('2,"b\n3,c\n', "the quote that opens here, in column 'name', is never closed"),
    ('2,"b\n' + "3,c\n" * 100_000, "the quote that opens here, in column 'name', is never closed"),
    ('2,"b"c\n3,c\n', "in column 'name', is closed in line 3 with text after it"),
    ('2,"b\n3,"c"\n', "in column 'name', is closed in line 4 with text after it"),
]


@pytest.fixture
def table(blockstore: Command, lake: str) -> str:
    blockstore("create", f"{lake}/t", "--schema", SCHEMA)
    return f"{lake}/t"


@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize(
    ("rows", "told"), FAULTS, ids=["short", "long", "text behind", "closed later"]
)
def test_no_file_with_an_open_quote_is_taken(
    blockstore: Command, table: str, tmp_path: Path, rows: str, told: str, form: str
) -> None:
    text = "id,name\n1,a\n" + rows
    file = tmp_path / f"x.{form}"
    file.write_text(text if form == "csv" else text.replace(",", "\t"))
    for words in (
        ("write", table, str(file)),
        ("overwrite", table, str(file)),
        ("build", str(tmp_path / "out"), str(file), "--like", table),
        ("create", f"{table}2", "--schema", str(file)),
    ):
        found = blockstore(*words, code=1).err
        assert f"{file}, line 3: " in found
        assert told in found
        assert "nothing was written" in found
    assert len(blockstore("history", table, "--json").json) == 1


def test_what_is_wrong_before_the_quote_is_told_first(
    blockstore: Command, table: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.csv"
    file.write_text('id,name\none,a\n2,"b\n')
    assert "line 2: column 'id' is 'one'" in blockstore("write", table, str(file), code=1).err


def test_a_quote_that_the_header_leaves_open_is_named(
    blockstore: Command, table: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.csv"
    file.write_text('id,"name\n' + "1,a\n" * 1_000)
    found = blockstore("write", table, str(file), code=1).err
    assert "line 1: the quote that opens here is never closed" in found


def test_quotes_that_fit_are_taken(blockstore: Command, table: str, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text('"id","name"\n1,"5"" disk"\r\n2,5" disk\n3,"a,\n""b"""\n"4",""')
    blockstore("write", table, str(file))
    rows = blockstore("query", table, "select name from t order by id", "-o", "json").json
    assert [row["name"] for row in rows] == ['5" disk', '5" disk', 'a,\n"b"', ""]
