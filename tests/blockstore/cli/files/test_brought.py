"""What is brought as a file: pipes, broken packs, files without rows, other delimiters; and the
line of a row."""

from __future__ import annotations

import bz2
import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.cli.files.forms import Form
from blockstore.cli.files.source import Source, line_of, read, schema_of, sources
from blockstore.errors import Invalid
from tests.blockstore.cli.conftest import Command

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
CSV = b"n,s\n" + b"1,a\n" * 100_000


def rows(word: str, form: Form | None = None) -> int:
    with sources((word,), form) as (source,):
        return sum(batch.num_rows for batch in read(source, SCHEMA))


@contextmanager
def one(path: Path) -> Iterator[Source]:
    with sources((str(path),), None) as (source,):
        yield source


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
@pytest.mark.timeout(60)
def test_a_named_pipe_is_read_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    data = gzip.compress(CSV) if name.endswith("gz") else CSV
    writing = threading.Thread(target=(tmp_path / name).write_bytes, args=(data,), daemon=True)
    writing.start()
    assert rows(str(tmp_path / name)) == 100_000
    writing.join()


@pytest.mark.timeout(60)
def test_a_pipe_that_the_shell_has_opened_is_a_file(tmp_path: Path) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(CSV)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        assert rows(f"/dev/fd/{reading}", Form.CSV) == 100_000
    finally:
        os.close(reading)
    thread.join()
    with pytest.raises(Invalid, match="give --format"):
        rows("/dev/null")


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("x.csv.gz", gzip.compress(CSV, mtime=0)[:-100], "gzip"),
        ("x.csv.gz", CSV, "gzip"),
        ("x.jsonl.gz", b'{"n": 1}\n', "gzip"),
        ("x.tsv.bz2", bz2.compress(CSV.replace(b",", b"\t"))[:-10], "bz2"),
        ("x.csv.zst", CSV, "zstd"),
        ("x.csv.lz4", CSV, "lz4"),
        ("x.arrows.gz", CSV, "gzip"),
    ],
)
def test_a_broken_pack_is_told_as_such(tmp_path: Path, name: str, data: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(data)
    told = rf"{name} is truncated or not {kind} "
    with pytest.raises(Invalid, match=told):
        rows(str(tmp_path / name))
    with one(tmp_path / name) as source, pytest.raises(Invalid, match=told):
        schema_of(source)


@pytest.mark.parametrize("text", ["n,s", "n,s\n", "n,s\r\n\n"])
def test_a_header_alone_is_a_file_without_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    assert rows(str(tmp_path / "x.csv")) == 0
    with one(tmp_path / "x.csv") as source:
        assert schema_of(source) == pa.schema([("n", pa.string()), ("s", pa.string())])


@pytest.mark.parametrize(
    ("name", "header", "advice"),
    [
        ("x.csv", "n;s", "separate the fields by commas"),
        ("x.csv", "n|s", "separate the fields by commas"),
        ("x.csv", "n\ts", "give --format tsv"),
        ("x.tsv", "n,s", "give --format csv"),
        ("x.tsv", "n;s", "separate the fields by tabs"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n1;a\n"])
def test_another_delimiter_is_noticed(
    tmp_path: Path, name: str, header: str, advice: str, end: str
) -> None:
    (tmp_path / name).write_text(header + end)
    with pytest.raises(Invalid, match=advice):
        rows(str(tmp_path / name))
    with one(tmp_path / name) as source, pytest.raises(Invalid, match=advice):
        schema_of(source)


def test_a_column_that_is_named_so_is_one(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("n;s\n5\n")
    with one(tmp_path / "x.csv") as source:
        (batch,) = read(source, pa.schema([("n;s", pa.int64())]))
    assert batch.column(0).to_pylist() == [5]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("x.csv", 'n,s\n1,"a\nb"\n\n2,b\n', 5),
        ("x.tsv", "n\ts\n1\ta\n2\tb\n", 3),
        ("x.jsonl", '{"n": 1}\n\n\n{"n": 2}\n', 4),
    ],
)
def test_the_line_of_a_row(tmp_path: Path, name: str, text: str, line: int) -> None:
    (tmp_path / name).write_text(text)
    with one(tmp_path / name) as source:
        assert line_of(source, 1) == line


def test_a_row_that_the_table_refuses_is_told_by_its_file_and_line(
    blockstore: Command, lake: str, tmp_path: Path
) -> None:
    url = f"{lake}/t"
    blockstore("create", url, "--schema", "n:int, s:string!, at:timestamp", "--time-column", "at")
    good, text, time, json = (
        tmp_path / name for name in ("good.csv", "text.csv", "time.csv", "x.jsonl")
    )
    good.write_text('n,s,at\n1,"a\nb",2013-01-01\n2,b,2013-01-01\n')
    text.write_text('n,s,at\n1,"a\n\nb",2013-01-01\n1,,2013-01-01\n')
    time.write_text("n,s,at\n1,a,2013-01-01\n1,a,\n")
    json.write_text('\n{"n": 1, "s": null, "at": "2013-01-01"}\n')
    for file, line, column in ((text, 5, "s"), (time, 3, "at"), (json, 2, "s")):
        for verb, *options in (
            ("write", url),
            ("overwrite", url),
            ("build", f"{tmp_path}/out", "--like", url),
        ):
            words = (verb, options[0], str(good), str(file), *options[1:])
            assert (
                f"{file}, line {line}: column {column!r} is null" in blockstore(*words, code=1).err
            )
    for words in (("--where", "n < 2"), ("--where", "n < 2", "--dry-run")):
        told = blockstore("overwrite", url, str(good), *words, code=1).err
        assert f"{good}, line 4: row 1 (from 0) of the new rows has n = 2" in told
