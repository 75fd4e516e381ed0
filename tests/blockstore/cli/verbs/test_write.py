"""``write``: all files or none, once if it has a job, and the place of what is wrong."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.errors import Conflict
from blockstore.index.log import Log
from blockstore.operations.writer import WriteOptions
from tests.blockstore.cli.conftest import Command
from tests.support.raw_text import raw_text

HEADER = "origin,time_hour,delay,fare\n"
GOOD = HEADER + "LGA,2014-01-01,5,1.25\n"


def count(blockstore: Command, url: str) -> int:
    rows = blockstore("query", url, "select count(*) as n from flights", "-o", "json").json
    return int(rows[0]["n"])


def test_several_files_of_several_forms_are_one_block(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.tsv").write_text(GOOD.replace(",", "\t"))
    (tmp_path / "c.jsonl").write_text(
        '{"origin": "LGA", "time_hour": "2014-01-01T00:00:00Z", "fare": 1.25}\n'
    )
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(GOOD.encode()))
    rows = pa.table(
        {
            "fare": pa.array(["1.25"]).cast(pa.decimal128(10, 2)),
            "origin": ["LGA"],
            "delay": pa.array([5], pa.int32()),
            "time_hour": pa.array([0], pa.timestamp("ms", "UTC")),
        }
    )
    pq.write_table(rows, tmp_path / "e.parquet")
    with pa.ipc.new_stream(tmp_path / "f.arrows", rows.schema) as writer:
        writer.write_table(rows)
    files = [
        str(tmp_path / name)
        for name in ("a.csv", "b.tsv", "c.jsonl", "d.csv.gz", "e.parquet", "f.arrows")
    ]
    before = count(blockstore, flights)
    done = blockstore("write", flights, *files, "--json").json
    assert done == {**done, "rows": 6, "published": True, "already": False}
    assert count(blockstore, flights) == before + 6
    assert blockstore("history", flights, "-n", "1", "--json").json[0]["added"] == [done["ulid"]]


def test_standard_input_is_a_file(
    blockstore: Command, flights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given").write_text(GOOD)
    with open(tmp_path / "given") as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert "wrote 1 row" in blockstore("write", flights, "-", "--format", "csv").out
    assert "give --format" in blockstore("write", flights, "-", code=1).err


def test_a_job_is_written_once(blockstore: Command, flights: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    words = ("write", flights, str(tmp_path / "a.csv"), "--app", "load", "--batch", "7", "--json")
    first, second = blockstore(*words).json, blockstore(*words).json
    assert (first["already"], second["already"]) == (False, True)
    assert first["ulid"] == second["ulid"]


def test_the_files_of_a_batch_that_was_written_are_not_read_again(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(GOOD)
    words = ("write", flights, str(file), "--app", "load", "--batch", "7", "--json")
    first = blockstore(*words).json
    file.write_text(HEADER + "JFK,2013-01-01,soon,1\n")
    again = blockstore(*words).json
    assert (again["already"], again["ulid"]) == (True, first["ulid"])


def test_files_without_rows_write_nothing(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(HEADER)
    assert "nothing written" in blockstore("write", flights, str(tmp_path / "a.csv")).out
    assert blockstore("write", flights, str(tmp_path / "a.csv"), "--json").json["ulid"] is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "x.csv",
            GOOD + 'JFK,"2013-01-01\n05:00",1,1\n',
            "line 3: column 'time_hour' is '2013-01-01\\n05:00', expected timestamp[us, UTC]",
        ),
        (
            "x.csv",
            HEADER + '"a\nb",2013-01-01,1,1\nJFK,2013-01-01,soon,1\n',
            "line 4: column 'delay' is 'soon', expected int",
        ),
        ("x.csv", GOOD + "JFK,2013-01-01,1\n", "line 3: 3 fields, expected 4"),
        (
            "x.csv",
            GOOD + "JFK,2013-01-01,1,1.255\n",
            "line 3: column 'fare' is '1.255', expected decimal(10, 2)",
        ),
        ("x.csv", GOOD + "JFK,,1,1\n", "'time_hour'"),
        ("x.csv", "origin,time_hour,delay\n", "the header lacks 'fare'"),
        ("x.csv", "origin,time_hour,delay\n", "add it to the file"),
        (
            "x.csv",
            "Origin,time_hour,DELAY,fare\n",
            (
                "the header lacks 'origin', 'delay' and names 'Origin', 'DELAY', expected the "
                "table's columns"
            ),
        ),
        (
            "x.csv",
            "Origin,time_hour,DELAY,fare\n",
            "in any order: case counts, so write 'Origin' as 'origin', 'DELAY' as 'delay'",
        ),
        ("x.jsonl", '{"Origin": "a"}\n', "case counts, so write 'Origin' as 'origin'"),
        (
            "x.csv",
            HEADER.replace("fare", "fare,more"),
            "the header names 'more', which the table lacks",
        ),
        ("x.csv", HEADER.replace("fare", "fare,fare"), "the header names 'fare' twice"),
        ("x.csv", "", "is empty"),
        (
            "x.csv",
            b"origin,time_hour,delay,fare\n\xff,2013-01-01,1,1\n",
            "line 2: the byte 0xff is not UTF-8",
        ),
        (
            "x.jsonl",
            '{"origin": 5, "time_hour": "2013-01-01"}\n',
            "line 1: column 'origin' is 5, expected string",
        ),
        (
            "x.jsonl",
            '{"time_hour": "2013-01-01"}\n\n{"time_hour": "x"}\n',
            "line 3: column 'time_hour' is \"x\"",
        ),
        (
            "x.jsonl",
            '{"time_hour": "2013-01-01", "delay": 1.5}\n',
            "line 1: column 'delay' is \"1.5\"",
        ),
        ("x.jsonl", '{"a": 1}\n', "key 'a' is not a column"),
        ("x.jsonl", '{"origin": "a"\n', "line 1:"),
        ("x.jsonl", "[1]\n", "expected a JSON object"),
        (
            "x.jsonl",
            "\n{bad\n",
            "line 2: Expecting property name enclosed in double quotes at character 2",
        ),
        ("x.parquet", b"nothing", "cannot be read as parquet"),
        ("x.arrow", b"nothing", "cannot be read as arrow"),
        ("x.txt", "a", "give --format"),
    ],
)
def test_a_bad_file_is_told_by_its_place_and_changes_nothing(
    blockstore: Command, flights: str, tmp_path: Path, name: str, content: str | bytes, says: str
) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / name
    good.write_text(GOOD)
    bad.write_bytes(content.encode() if isinstance(content, str) else content)
    before = blockstore("inspect", flights, "--json").json
    found = blockstore("write", flights, str(good), str(bad), code=1).err
    assert says in found
    assert name in found
    after = blockstore("inspect", flights, "--json").json
    assert [block for block in after if block["state"] == "ready"] == before
    assert len(blockstore("history", flights, "--json").json) == 4


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_text_of_a_file_that_is_not_utf8_is_told_by_column_and_row(
    blockstore: Command, flights: str, tmp_path: Path, name: str
) -> None:
    rows = pa.table(
        {
            "origin": raw_text([b"JFK", b"Z\xfcrich"]),
            "time_hour": pa.array([0, 0], pa.timestamp("us", "UTC")),
            "delay": pa.nulls(2, pa.int64()),
            "fare": pa.nulls(2, pa.decimal128(10, 2)),
        }
    )
    if name == "x.parquet":
        pq.write_table(rows, tmp_path / name)
    else:
        pa.feather.write_feather(rows, tmp_path / name, compression="uncompressed")
    found = blockstore("write", flights, str(tmp_path / name), code=1).err
    assert "column 'origin' holds b'Z\\xfcrich' in row 1" in found
    assert len(blockstore("history", flights, "--json").json) == 4


def test_wrong_types_of_a_parquet_file_name_file_and_column(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    pq.write_table(
        pa.table({"origin": [1], "time_hour": [1], "delay": ["x"], "fare": [1.5]}),
        tmp_path / "x.parquet",
    )
    found = blockstore("write", flights, str(tmp_path / "x.parquet"), code=1).err
    assert "x.parquet" in found
    assert "'origin'" in found


def test_a_parquet_file_of_other_columns_is_told_what_it_has_and_what_it_lacks(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"a": [1], "origin": ["x"]}), tmp_path / "x.parquet")
    found = blockstore("write", flights, str(tmp_path / "x.parquet"), code=1).err
    assert (
        "has columns 'a', 'origin' and lacks columns 'time_hour', 'delay', 'fare', expected all"
        in found
    )
    pq.write_table(
        pa.table({"ORIGIN": ["x"], "time_hour": [1], "delay": [1], "fare": [1]}),
        tmp_path / "x.parquet",
    )
    found = blockstore("write", flights, str(tmp_path / "x.parquet"), code=1).err
    assert "case counts, so write 'ORIGIN' as 'origin'" in found


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "no file was given"),
        (["nofile.csv"], 1, "there is no file nofile.csv"),
        (["."], 1, ". is a folder"),
        (["a.csv", "--app", "x"], 2, "give both or neither"),
        (["a.csv", "--format", "xls"], 2, "xls"),
    ],
)
def test_a_wrong_call_is_told(
    blockstore: Command, flights: str, words: list[str], code: int, says: str
) -> None:
    assert says in blockstore("write", flights, *words, code=code).err


def test_a_column_of_lists_goes_by_json_not_csv(
    blockstore: Command, lake: str, tmp_path: Path
) -> None:
    schema = (
        "l:list<int>, m:map<string, double>, s:struct<day:date, t:time>, b:binary, f:double, "
        "ok:bool"
    )
    blockstore("create", f"{lake}/t", "--schema", schema)
    (tmp_path / "x.csv").write_text("l,m,s,b,f,ok\n")
    assert (
        "which CSV cannot contain"
        in blockstore("write", f"{lake}/t", str(tmp_path / "x.csv"), code=1).err
    )
    (tmp_path / "x.jsonl").write_text(
        '{"l": [1, null], "m": {"a": 1.5}, "s": {"day": "2013-01-01", "t": "05:00:00"}, "b": '
        '"AP8=", "f": "NaN", "ok": true}\n{}\n'
    )
    blockstore("write", f"{lake}/t", str(tmp_path / "x.jsonl"))
    rows = blockstore("query", f"{lake}/t", "select * from t where ok", "-o", "json").json
    assert rows[0]["l"] == [1, None]
    assert rows[0]["s"] == {"day": "2013-01-01", "t": "05:00:00"}
    assert rows[0]["b"] == "AP8="


def test_what_query_writes_write_reads(
    blockstore: Command, flights: str, lake: str, tmp_path: Path
) -> None:
    sql = "select origin, time_hour, delay, fare from flights"
    before = blockstore("query", flights, f"{sql} order by all", "-o", "json").json
    for form in ("csv", "tsv", "json", "parquet", "arrow"):
        file = tmp_path / f"out.{form}"
        blockstore("query", flights, sql, "-o", form, "--to", str(file))
        if form == "json":
            file.write_text(
                "\n".join(line.rstrip(",") for line in file.read_text().splitlines()[1:-1])
            )
        url = f"{lake}/{form}/flights"
        blockstore(
            "create",
            url,
            "--schema",
            "origin:string, time_hour:timestamp[us, UTC], delay:int, fare:decimal(10, 2)",
        )
        blockstore("write", url, str(file))
        assert blockstore("query", url, f"{sql} order by all", "-o", "json").json == before, form


def test_another_spelling_of_null_is_said(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text(HEADER + "LGA,2013-01-01,NA,NA\n")
    assert "'NA'" in blockstore("write", flights, str(tmp_path / "x.csv"), code=1).err
    blockstore("write", flights, str(tmp_path / "x.csv"), "--null", "NA")


class TestRefusedAfterItsUpload:
    @pytest.fixture
    def sorted_table(
        self, blockstore: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> str:
        """A table whose writer uploads what it was given at once; a good file and a bad one."""
        url = f"{tmp_path}/sorted"
        blockstore(
            "create",
            url,
            "--schema",
            "id:long",
            "--sort-by",
            "id",
            "--property",
            "partial_delay=30h",
        )
        (tmp_path / "good.csv").write_text("id\n1\n2\n")
        (tmp_path / "bad.csv").write_text("id\n3\nfour\n")
        init = WriteOptions.__init__
        monkeypatch.setattr(
            WriteOptions,
            "__init__",
            lambda self, **given: init(self, **{**given, "buffer_bytes": 1}),
        )
        return url

    def test_the_directory_of_the_block_is_told(
        self, blockstore: Command, sorted_table: str, tmp_path: Path
    ) -> None:
        told = blockstore(
            "write", sorted_table, f"{tmp_path}/good.csv", f"{tmp_path}/bad.csv", code=1
        ).err
        (folder,) = {path.parts[-3] for path in Path(sorted_table).glob("*/chunks/*")}
        assert "four" in told
        assert f"of it were uploaded as block {folder}, which no reader sees" in told
        assert "when it is 30h old" in told

    def test_a_job_that_is_fenced_off_names_its_block(
        self,
        blockstore: Command,
        sorted_table: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def refuse(*_: object) -> None:
            raise Conflict("another process was faster")

        monkeypatch.setattr(Log, "commit", refuse)
        words = ("write", sorted_table, f"{tmp_path}/good.csv", "--app", "a", "--batch", "1")
        told = blockstore(*words, code=1).err
        (folder,) = {path.parts[-2] for path in Path(sorted_table).glob("*/meta.json")}
        assert told.startswith("error: another process was faster; ")
        assert f"are stored as block {folder}" in told
        assert "run the same job again" in told

    def test_nothing_is_said_of_a_block_where_nothing_was_uploaded(
        self, blockstore: Command, sorted_table: str, tmp_path: Path
    ) -> None:
        told = blockstore("write", sorted_table, f"{tmp_path}/bad.csv", code=1).err
        assert "four" in told
        assert "block" not in told


def test_evolve_adds_the_columns_of_files_in_the_same_version(
    blockstore: Command, lake: str, tmp_path: Path
) -> None:
    url = f"{lake}/t"
    blockstore("create", url, "--schema", "n:int32")
    (tmp_path / "more.csv").write_text("n,note\n1,a\n2,\n")
    refused = blockstore("write", url, f"{tmp_path}/more.csv", code=1)
    assert "note" in refused.err
    blockstore("write", url, f"{tmp_path}/more.csv", "--evolve")
    schema = bs.open(url).definition.schema
    assert [(one.name, str(one.type)) for one in schema] == [("n", "int32"), ("note", "string")]
    wide = pa.table({"n": pa.array([2**40], pa.int64()), "note": ["b"]})
    pq.write_table(wide, tmp_path / "wide.parquet")
    blockstore("write", url, f"{tmp_path}/wide.parquet", "--evolve")
    table = bs.open(url)
    assert table.definition.schema.field("n").type == pa.int64()
    assert table.poll() == 3
    rows = table.snapshot().scan().to_table().to_pylist()
    assert sorted(row["n"] for row in rows) == [1, 2, 2**40]


def test_evolve_is_not_for_files_that_name_rows(
    blockstore: Command, lake: str, tmp_path: Path
) -> None:
    url = f"{lake}/t"
    blockstore("create", url, "--schema", "n:int32", "--row-ids")
    (tmp_path / "named.csv").write_text("_row_id,_version,n\n,,1\n")
    found = blockstore("write", url, f"{tmp_path}/named.csv", "--evolve", code=2)
    assert "alter the table first" in found.err
    assert bs.open(url).poll() == 1
