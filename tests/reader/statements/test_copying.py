"""COPY: files of the user's machine, by ``blockstore sql`` and by nothing else."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.cli.main import run
from blockstore.reader.errors import BadSql

Sql = Callable[..., int]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake with tables ``t`` and ``k``, and files in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()
    url = f"{tmp_path}/lake?durable=false"
    bs.sql(url, "CREATE TABLE t (a INTEGER, b VARCHAR); CREATE TABLE k (a INTEGER PRIMARY KEY)")
    bs.sql(url, "INSERT INTO t VALUES (1, 'x'), (2, NULL)")
    (tmp_path / "good.csv").write_text("b,a\nNA,7\nz,8\n")
    (tmp_path / "bad.csv").write_text("a,b\n1,x\nzwei,\n")
    return url


def rows(lake: str, table: str = "t") -> list[tuple[object, ...]]:
    found = bs.sql(lake, f"SELECT * FROM {table} ORDER BY ALL").to_arrow().to_pylist()
    return [tuple(row.values()) for row in found]


def version(lake: str) -> int:
    found = bs.open(lake.replace("lake?", "lake/t?")).log.state.version
    assert isinstance(found, int)
    return found


def test_rows_go_to_a_file_and_come_back(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows(lake)
    compressed = ("t.csv.gz", "t.tsv.bz2", "t.jsonl.zst", "t.arrow.lz4")
    for name in ("t.csv", "t.tsv", "t.parquet", "t.arrow", "t.jsonl", *compressed):
        assert run(["sql", lake, f"COPY t TO '{name}'; DELETE FROM t; COPY t FROM '{name}'"]) == 0
        shown = capsys.readouterr().out
        assert "COPY: 2 written" in shown
        assert "COPY: 2 inserted, version" in shown
        assert rows(lake) == before, name


def test_a_query_goes_to_a_file_in_the_form_that_is_said(lake: str) -> None:
    sql = "COPY (SELECT a * 2 AS twice FROM t) TO 'out.data' WITH (FORMAT 'parquet')"
    assert run(["sql", lake, sql]) == 0
    assert pq.read_table("out.data").to_pylist() == [{"twice": 2}, {"twice": 4}]
    assert run(["sql", lake, r"COPY t TO 'out.txt' (DELIMITER '\t', HEADER)"]) == 0
    assert Path("out.txt").read_text().splitlines()[0] == '"a"\t"b"'


def test_a_file_is_compressed_as_its_name_says(lake: str) -> None:
    assert run(["sql", lake, "COPY t TO 't.csv.gz'"]) == 0
    assert gzip.decompress(Path("t.csv.gz").read_bytes()) == b'"a","b"\n1,"x"\n2,\n'
    assert run(["query", lake, "FROM t", "-o", "csv", "--to", "q.csv.gz"]) == 0
    assert gzip.decompress(Path("q.csv.gz").read_bytes()) == b'"a","b"\n1,"x"\n2,\n'


def test_a_path_begins_at_home_as_in_a_shell(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    there_and_back = "COPY t TO '~/home.csv'; DELETE FROM t; COPY t FROM '~/home.csv'"
    assert run(["sql", lake, there_and_back]) == 0
    assert (tmp_path / "home.csv").exists()
    assert rows(lake) == [(1, "x"), (2, None)]


def test_a_file_is_read_by_its_head_and_its_spelling_of_null(lake: str) -> None:
    assert run(["sql", lake, "COPY t FROM 'good.csv' (NULL 'NA', HEADER true)"]) == 0
    assert rows(lake) == [(1, "x"), (2, None), (7, None), (8, "z")]


def test_a_file_that_names_rows_changes_them(lake: str) -> None:
    bs.sql(lake, "CREATE TABLE ids (n INTEGER) WITH (row_ids = true); INSERT INTO ids VALUES (5)")
    Path("rows.csv").write_text("_row_id,_version,n\n0,2,6\n,,9\n")
    assert run(["sql", lake, "COPY ids FROM 'rows.csv'"]) == 0
    assert rows(lake, "ids") == [(6,), (9,)]


def test_it_happens_once_for_a_job(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    once = ["sql", lake, "COPY t FROM 'good.csv'", "-o", "json", "--app", "x", "--batch", "1"]
    for already in (False, True):
        assert run(once) == 0
        assert json.loads(capsys.readouterr().out)["already"] is already
    assert len(rows(lake)) == 4


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("COPY t FROM 'bad.csv'", "bad.csv, line 3: column 'a' is 'zwei', expected int32"),
        ("COPY t FROM 'nowhere.csv'", "there is no file nowhere.csv"),
        ("COPY t TO 'out.data'", "does not show the form of the file"),
        ("COPY t TO '/nowhere/at/all.csv'", "cannot be written"),
        ("COPY t TO 't.parquet.gz'", "Parquet is compressed inside"),
        ("COPY t TO STDOUT", "'/dev/stdout' (FORMAT csv)"),
        ("COPY t FROM STDIN (FORMAT csv)", "'/dev/stdin' (FORMAT csv)"),
        ("COPY t (a) FROM 'good.csv'", "has no list of columns"),
        ("COPY nope FROM 'good.csv'", "nope"),
        ("COPY (SELECT nope FROM t) TO 'out.csv'", "nope"),
        ("COPY (SELECT 1) FROM 'good.csv'", "syntax error"),
        ("COPY t FROM good", "the path of a file in quotes"),
        ("COPY t TO 'out.csv' (QUOTE 'x')", "no option QUOTE 'x'"),
        ("COPY t TO 'out.csv' (FORMAT xlsx)", "'xlsx' is no form"),
        ("COPY t TO 'out.csv' (NULL 'NA')", "no option NULL 'NA'"),
        ("COPY t TO 'out.csv' (HEADER false)", "no option HEADER false"),
        ("INSERT INTO t VALUES (3, 'c'); COPY t FROM good", "the path of a file in quotes"),
        ("BEGIN; COPY t FROM 'good.csv'; COMMIT", "not possible in a transaction"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_changes_nothing(
    lake: str, sql: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = version(lake)
    assert run(["sql", lake, sql]) == 1
    assert says in capsys.readouterr().err
    assert version(lake) == before
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["bad.csv", "good.csv", "lake"]


def test_a_row_whose_key_exists_is_refused(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("keys.csv").write_text("a\n1\n2\n")
    assert run(["sql", lake, "COPY k FROM 'keys.csv'"]) == 0
    assert run(["sql", lake, "COPY k FROM 'keys.csv'"]) == 1
    assert "keys" in capsys.readouterr().err
    assert rows(lake, "k") == [(1,), (2,)]


@pytest.mark.parametrize("sql", ["COPY t TO 'out.csv'", "COPY t FROM 'good.csv'"])
def test_a_program_reaches_no_file(lake: str, sql: str) -> None:
    before = version(lake)
    with pytest.raises(BadSql, match="only the command blockstore sql does"):
        bs.sql(lake, f"DELETE FROM t; {sql}")
    assert run(["query", lake, sql]) == 1
    assert version(lake) == before
    assert not Path("out.csv").exists()
