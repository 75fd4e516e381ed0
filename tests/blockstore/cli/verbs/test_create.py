"""``create`` and ``alter``: definitions in, tables out, wrong ones told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.blockstore.cli.conftest import Command


def test_a_table_is_made_from_a_text(blockstore: Command, lake: str) -> None:
    done = blockstore(
        "create",
        f"{lake}/t",
        "--schema",
        "id:int!, at:timestamp[us, UTC], tags:list<string>",
        "--time-column",
        "at",
        "--sort-by",
        "id, at",
        "--property",
        "sync_delay=10m",
        "--label",
        "cluster=eu1",
        "--json",
    )
    assert done.json == {
        "url": f"file://{lake}/t",
        "version": 1,
        "columns": [
            {"name": "id", "type": "int", "nullable": False},
            {"name": "at", "type": "timestamp[us, UTC]", "nullable": True},
            {"name": "tags", "type": "list<string>", "nullable": True},
        ],
        "schema_id": 1,
        "time_column": "at",
        "sort_by": ["id", "at"],
        "labels": {"cluster": "eu1"},
        "properties": done.json["properties"] | {"sync_delay": "10m"},
    }


@pytest.mark.parametrize("form", ["parquet", "csv", "tsv", "jsonl", "arrow"])
def test_a_table_is_made_from_a_file(
    blockstore: Command, lake: str, tmp_path: Path, form: str
) -> None:
    file = tmp_path / f"rows.{form}"
    rows = pa.table({"n": [1, 2], "x": [1.5, None], "s": ["a", "b"]})
    match form:
        case "parquet":
            pq.write_table(rows, file)
        case "arrow":
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
        case "jsonl":
            file.write_text('{"n": 1, "x": 1.5, "s": "a"}\n{"n": 2, "s": "b"}\n')
        case _:
            file.write_text("n,x,s\n1,1.5,a\n2,,b\n".replace(",", "," if form == "csv" else "\t"))
    done = blockstore("create", f"{lake}/t", "--schema", str(file), "--json")
    assert [(column["name"], column["type"]) for column in done.json["columns"]] == [
        ("n", "int"),
        ("x", "double"),
        ("s", "string"),
    ]
    blockstore("write", f"{lake}/t", str(file))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--schema", "nofile"], 2, "expected name:type,… or an existing file"),
        (["--schema", "a:foo"], 2, "found 'foo', expected a type"),
        (
            ["--schema", "a:int", "--property", "sync_delay"],
            2,
            "--property is 'sync_delay', expected name=value",
        ),
        (["--schema", "a:int", "--property", "x=1"], 1, "unknown table property 'x'"),
        (["--schema", "a:int", "--property", "sync_delay=soon"], 1, "expected a duration"),
        (["--schema", "a:int", "--time-column", "b"], 1, "'b' is not in the schema"),
        (["--schema", "a:int", "--time-column", "a"], 1, "expected a timestamp or a date"),
        (["--schema", "a:int", "--sort-by", "b"], 1, "sort key names 'b'"),
        (["--schema", "_source:int"], 1, "reserved"),
    ],
)
def test_a_wrong_definition_is_told_and_makes_nothing(
    blockstore: Command, lake: str, words: list[str], code: int, says: str
) -> None:
    assert says in blockstore("create", f"{lake}/t", *words, code=code).err
    assert not Path(f"{lake}/t/index").exists()


def test_a_table_is_not_made_twice(blockstore: Command, lake: str) -> None:
    blockstore("create", f"{lake}/t", "--schema", "a:int")
    assert (
        "there is already a table at"
        in blockstore("create", f"{lake}/t", "--schema", "a:int", code=1).err
    )


def test_alter_adds_widens_and_sets(blockstore: Command, lake: str) -> None:
    blockstore("create", f"{lake}/t", "--schema", "a:int32")
    done = blockstore(
        "alter",
        f"{lake}/t",
        "--add",
        "b:string",
        "--widen",
        "a:int",
        "--property",
        "retention=30d",
        "--json",
    )
    assert [(column["name"], column["type"]) for column in done.json["columns"]] == [
        ("a", "int"),
        ("b", "string"),
    ]
    assert done.json["version"] == 2
    assert done.json["properties"]["retention"] == "720h"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "nothing to change"),
        (["--add", "a:int"], 1, "'a'"),
        (["--add", "b:int!"], 1, "add it as nullable"),
        (["--widen", "a:int32"], 1, "cannot be widened"),
        (["--widen", "x:int"], 1, "no such column"),
    ],
)
def test_what_cannot_be_altered_is_told(
    blockstore: Command, lake: str, words: list[str], code: int, says: str
) -> None:
    blockstore("create", f"{lake}/t", "--schema", "a:int")
    assert says in blockstore("alter", f"{lake}/t", *words, code=code).err
    assert len(blockstore("history", f"{lake}/t", "--json").json) == 1
