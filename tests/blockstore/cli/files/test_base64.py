"""Bytes in a text file are base64, in CSV and TSV as in JSON lines; what is none is refused with
line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blockstore.cli.files.source import read, schema_of, sources
from blockstore.errors import Invalid

FORMS = {
    "x.csv": ("n,b\n", "1,{}\n"),
    "x.tsv": ("n\tb\n", "1\t{}\n"),
    "x.jsonl": ("", '{{"n": 1, "b": "{}"}}\n'),
}


def column(path: Path, text: str, kind: pa.DataType) -> list[Any]:
    path.write_text(text)
    schema = pa.schema([("n", pa.int64()), ("b", kind)])
    with sources((str(path),), None) as (source,):
        return [value for batch in read(source, schema) for value in batch["b"].to_pylist()]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(2)], ids=str)
def test_base64_is_read_as_the_bytes_it_stands_for(
    name: str, kind: pa.DataType, tmp_path: Path
) -> None:
    header, row = FORMS[name]
    text = header + row.format("AP8=") + row.format("YWI=")
    assert column(tmp_path / name, text, kind) == [b"\x00\xff", b"ab"]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.binary(), "no base64!"),
        (pa.binary(), "YWJ"),
        (pa.binary(), "YQ==YQ=="),
        (pa.binary(), "é"),
        (pa.binary(2), "YQ=="),
    ],
    ids=["signs", "cut", "two", "no ASCII", "short"],
)
def test_what_is_no_base64_is_refused_with_line_and_column(
    name: str, kind: pa.DataType, value: str, tmp_path: Path
) -> None:
    header, row = FORMS[name]
    text = header + row.format("YWI=") + row.format(value)
    line = text.count("\n")
    with pytest.raises(Invalid, match=f"line {line}: column 'b' is .*expected .*base64"):
        column(tmp_path / name, text, kind)


def test_empty_bytes_stand_in_quotes_and_null_without(tmp_path: Path) -> None:
    assert column(tmp_path / "x.csv", 'n,b\n1,""\n2,\n3,"YQ=="\n', pa.binary()) == [b"", None, b"a"]


def test_text_that_is_no_utf8_suggests_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"n,name\n" + b"1,a\n" * 10_000 + b"2,Z\xfcrich\n")
    with (
        sources((str(tmp_path / "x.csv"),), None) as (source,),
        pytest.raises(Invalid, match=r"line 10002: the byte 0xfc is not UTF-8"),
    ):
        schema_of(source)
