"""``ls``, ``inspect``, ``show``, ``history``, ``diff`` and ``query``: what is there, for people and
for machines."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.names import is_ulid
from tests.blockstore.cli.conftest import Command


def test_a_lake_lists_its_tables_and_a_table_its_blocks(
    blockstore: Command, flights: str, lake: str
) -> None:
    blockstore("create", f"{lake}/empty", "--schema", "a:int")
    Path(f"{lake}/no table").mkdir()
    found = blockstore("ls", lake, "--json").json
    assert [(row["name"], row["rows"], row["blocks"]) for row in found] == [
        ("empty", 0, 0),
        ("flights", 18, 3),
    ]
    shown = blockstore("ls", lake).out
    assert "flights" in shown
    assert "no table" not in shown
    assert [block["rows"] for block in blockstore("ls", flights, "--json").json] == [6, 6, 6]
    assert blockstore("ls", flights).out.count("2013-01-0") == 3


def test_a_broken_table_does_not_hide_the_others(
    blockstore: Command, flights: str, lake: str
) -> None:
    shutil.copytree(flights, f"{lake}/broken")
    Path(f"{lake}/broken/gc/index.boundary").write_text("garbage")
    failed = blockstore("ls", lake, "--json", code=1)
    found = {row["name"]: row["problem"] for row in failed.json}
    assert found["flights"] is None
    assert found["broken"]
    assert "1 table" in failed.err
    assert "broken" in failed.err
    assert "flights" in blockstore("ls", lake, code=1).out


def test_inspect_tells_every_block_with_its_state(blockstore: Command, flights: str) -> None:
    blocks = blockstore("inspect", flights, "--json").json
    first = blocks[0]
    assert first == {
        **first,
        "state": "ready",
        "reason": "an index entry names it",
        "min_time": "2013-01-01T01:00:00Z",
        "max_time": "2013-01-01T03:00:00.001Z",
        "rows": 6,
        "level": 1,
        "labels": {"day": "1"},
        "sources": [first["ulid"]],
        "version": 2,
    }
    ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    Path(f"{flights}/{ulid}/chunks").mkdir(parents=True)
    Path(f"{flights}/{ulid}/chunks/000001.parquet").write_bytes(b"x" * 10)
    Path(f"{flights}/{first['ulid']}/chunks/000001.parquet").unlink()
    states = {
        block["ulid"]: (block["state"], block["reason"])
        for block in blockstore("inspect", flights, "--json").json
    }
    assert states[ulid] == ("fresh", "no meta.json yet: being uploaded")
    assert states[first["ulid"]][0] == "malformed"
    assert "chunks/000001.parquet is missing" in states[first["ulid"]][1]


def test_inspect_selects_and_sorts_in_every_form(blockstore: Command, flights: str) -> None:
    only = blockstore("inspect", flights, "--selector", "day=2", "-o", "json").json
    assert [block["labels"]["day"] for block in only] == ["2"]
    assert blockstore("inspect", flights, "--selector", "state=marked", "-o", "json").json == []
    turned = blockstore("inspect", flights, "--sort-by", "-version", "-o", "json").json
    assert [block["version"] for block in turned] == [4, 3, 2]
    for form, dialect in (("csv", "excel"), ("tsv", "excel-tab")):
        rows = list(
            csv.DictReader(
                io.StringIO(blockstore("inspect", flights, "-o", form).out), dialect=dialect
            )
        )
        assert [(row["rows"], json.loads(row["labels"])) for row in rows] == [
            ("6", {"day": str(day)}) for day in (1, 2, 3)
        ]
    wide = blockstore("inspect", flights, "-o", "wide").out
    assert "UPLOADED" in wide
    assert "3 blocks" in wide
    assert (
        "expected one of ulid" in blockstore("inspect", flights, "--sort-by", "color", code=2).err
    )


def test_inspect_picks_states_and_fills_in_a_template(blockstore: Command, flights: str) -> None:
    told = blockstore(
        "inspect", flights, "--template", "{ulid} {rows:>4} {labels} {job}|"
    ).out.splitlines()
    first = blockstore("inspect", flights, "--json").json[0]
    assert told[0] == f'{first["ulid"]}    6 {{"day":"1"}} |'
    assert blockstore("inspect", flights, "--state", "marked", "--template", "{ulid}").out == ""
    assert (
        len(blockstore("inspect", flights, "--state", "ready", "--state", "fresh", "--json").json)
        == 3
    )
    assert "expected one of fresh" in blockstore("inspect", flights, "--state", "reddy", code=2).err
    for wrong in ("{nothing}", "{ulid.__class__}", "{", "{ulid:d}"):
        assert "--template" in blockstore("inspect", flights, "--template", wrong, code=2).err


def test_inspect_refuses_a_state_that_there_is_not(blockstore: Command, flights: str) -> None:
    told = blockstore("inspect", flights, "--selector", "state=reddy", code=2).err
    assert "state=reddy" in told
    assert "ready" in told
    assert "0 blocks" in blockstore("inspect", flights, "--selector", "state=marked").out


def test_one_block_is_not_counted_in_the_plural(blockstore: Command, flights: str) -> None:
    ulid = blockstore("ls", flights, "--json").json[0]["ulid"]
    assert "in 1 chunk\n" in blockstore("show", flights, ulid).out
    assert "\n1 block, " in blockstore("inspect", flights, "--selector", "day=1").out
    assert "+6 rows, 1 block added, 0 removed" in blockstore("diff", flights, "1", "2").out


def test_show_tells_everything_of_a_block(blockstore: Command, flights: str) -> None:
    ulid = blockstore("ls", flights, "--json").json[0]["ulid"]
    found = blockstore("show", flights, ulid.lower(), "--json").json
    assert found["files"][0]["columns"]["origin"] == {"min": "EWR", "max": "JFK", "nulls": 0}
    shown = blockstore("show", flights, ulid).out
    assert "SHA-256" in shown
    assert found["files"][0]["sha256"] in shown
    assert "is not a block name" in blockstore("show", flights, "x", code=1).err
    assert (
        "there is no block" in blockstore("show", flights, "01ARZ3NDEKTSV4RRFFQ69G5FAV", code=1).err
    )


def test_show_tells_who_has_a_block_and_what_lies_on_it(blockstore: Command, flights: str) -> None:
    ulid = blockstore("ls", flights, "--json").json[0]["ulid"]
    Path(f"{flights}/{ulid}/chunks/lost.parquet").write_bytes(b"x")
    blockstore("mark", flights, ulid, "--no-compact", "--details", "odd")
    found = blockstore("show", flights, ulid, "--rows", "--json").json
    assert (found["named_by"], found["no_compact_mark"], found["rows_by_source"]) == (
        "version 4",
        True,
        {ulid: 6},
    )
    assert found["committed"]["operation"] == "append"
    assert found["debris"] == ["chunks/lost.parquet"]
    blockstore("mark", flights, ulid, "--deletion")
    told = blockstore("show", flights, ulid).out
    assert "superseded: the index accounts for its sources without it" in told
    assert "named by version 4" in told


def test_history_and_diff(blockstore: Command, flights: str) -> None:
    blockstore("alter", flights, "--add", "extra:int", "--message", "for later")
    found = blockstore("history", flights, "--json").json
    assert [(entry["version"], entry["operation"], entry["rows_added"]) for entry in found] == [
        (1, "create", 0),
        (2, "append", 6),
        (3, "append", 6),
        (4, "append", 6),
        (5, "alter", 0),
    ]
    assert "for later" in blockstore("history", flights, "--last", "1").out
    assert "append" not in blockstore("history", flights, "--last", "1").out
    assert "expected 1 or more" in blockstore("history", flights, "--last", "0", code=2).err
    changed = blockstore("diff", flights, "2", "5", "--json").json
    assert (changed["rows"], len(changed["added"]), changed["removed"]) == (12, 2, [])
    assert changed["columns"] == [{"name": "extra", "before": None, "after": "int"}]
    assert "-12 rows" in blockstore("diff", flights, "5", "2").out
    assert "no version 9" in blockstore("diff", flights, "1", "9", code=1).err


def test_diff_tells_what_is_hidden_and_shown_again(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    ulids = []
    for part in ("a", "b"):
        (tmp_path / f"{part}.csv").write_text(
            "origin,time_hour,delay,fare\nLGA,2014-01-01,5,1.25\n"
        )
        ulids.append(
            blockstore("write", flights, str(tmp_path / f"{part}.csv"), "--json").json["ulid"]
        )
    compact_once(bs.open(flights), Settings(tier_blocks=2, work_dir=tmp_path))
    shown = bs.open(flights).poll()
    assert "+0 rows, 1 block added, 2 removed" in blockstore("diff", flights, "6", str(shown)).out
    blockstore("revert", flights, ulids[0])
    hidden = blockstore("diff", flights, str(shown), str(shown + 1)).out
    assert "rows unknown" in hidden
    assert f"the rows of {ulids[0]}" in hidden
    blockstore("restore", flights, "--version", str(shown))
    now = str(bs.open(flights).poll())
    back = blockstore("diff", flights, str(shown + 1), now).out
    assert "shown again in " in back
    assert f"the rows of {ulids[0]}" in back
    told = blockstore("diff", flights, str(shown + 1), now, "--json").json
    assert (told["rows"], list(told["shown"].values()), told["hidden"]) == (None, [[ulids[0]]], {})


def test_query_answers_and_travels_in_time(blockstore: Command, flights: str) -> None:
    sql = "select origin, count(*) as n, sum(fare) as fares from flights group by all order by all"
    assert blockstore("query", flights, sql, "-o", "json").json == [
        {"origin": "EWR", "n": 9, "fares": 22.5},
        {"origin": "JFK", "n": 9, "fares": 22.5},
    ]
    assert (
        blockstore("query", flights, sql, "-o", "csv").out
        == '"origin","n","fares"\n"EWR",9,22.50\n"JFK",9,22.50\n'
    )
    assert "EWR" in blockstore("query", flights, sql).out
    counted = "select count(*) as n from flights"
    assert blockstore("query", flights, counted, "--version", "2", "-o", "json").json == [{"n": 6}]
    assert blockstore(
        "query", flights, counted, "--as-of", "2999-01-01T00:00:00Z", "-o", "json"
    ).json == [{"n": 18}]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["select 1"], 2, "query needs the URLs of tables and the SQL"),
        (["FLIGHTS", "selec"], 1, "line 1, column 1"),
        (["FLIGHTS", "select * from fligths"], 1, "did you mean flights?"),
        (["FLIGHTS", "select nope from flights"], 1, "nope"),
        (["FLIGHTS", "copy flights to 'x'"], 1, "one SELECT statement"),
        (["FLIGHTS", "FLIGHTS", "select 1", "--version", "1"], 2, "--version is for one table"),
        (["FLIGHTS", "select 1", "--version", "99"], 1, "no version 99"),
        (["FLIGHTS", "select 1", "--as-of", "soon"], 2, "--as-of is 'soon', expected a time"),
        (["FLIGHTS", "select 1", "--as-of", "2000-01-01"], 1, "no version as of"),
        (["FLIGHTS", "select 1", "-o", "table", "--to", "x"], 1, "use -o csv"),
    ],
)
def test_a_wrong_query_is_told(
    blockstore: Command, flights: str, words: list[str], code: int, says: str
) -> None:
    found = blockstore(
        "query", *(flights if word == "FLIGHTS" else word for word in words), code=code
    )
    assert says in found.err
    assert found.out == ""


@pytest.mark.parametrize(
    "verb", ["ls", "inspect", "history", "alter", "write", "show", "diff", "query"]
)
def test_every_verb_tells_a_path_that_is_no_table(
    blockstore: Command, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file.txt").write_text("x")
    more = {
        "alter": ["--add", "a:int"],
        "write": [str(tmp_path / "folder" / "file.txt"), "--format", "csv"],
        "show": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        "diff": ["1", "2"],
        "query": ["select 1"],
    }
    for url in (f"{tmp_path}/nowhere", f"{tmp_path}/folder"):
        assert f"no table at file://{url}" in blockstore(verb, url, *more.get(verb, []), code=1).err
    assert "unknown" in blockstore(verb, "ftp://x/y", *more.get(verb, []), code=1).err


def test_a_lake_taken_for_a_table_names_what_lies_in_it(
    blockstore: Command, flights: str, lake: str
) -> None:
    says = blockstore("history", lake, code=1).err
    assert "directly below it are flights: name a table among them" in " ".join(says.split())


class TestALakeIsQueried:
    """As it is listed, compacted and served: its tables go by their names."""

    @pytest.fixture
    def carriers(self, blockstore: Command, flights: str, lake: str, tmp_path: Path) -> str:
        (tmp_path / "carriers.csv").write_text("code,name\nJFK,Kennedy\n")
        blockstore("create", f"{lake}/carriers", "--schema", "code:string, name:string")
        blockstore("write", f"{lake}/carriers", str(tmp_path / "carriers.csv"))
        (tmp_path / "lake" / "notes").mkdir()
        return lake

    def test_its_tables_are_joined(self, blockstore: Command, carriers: str) -> None:
        sql = "select name, count(*) as n from flights join Carriers on code = origin group by name"
        assert blockstore("query", carriers, sql, "-o", "json").json == [
            {"name": "Kennedy", "n": 9}
        ]

    def test_a_table_that_is_not_there_is_told_with_those_that_are(
        self, blockstore: Command, carriers: str
    ) -> None:
        assert (
            "the tables are carriers, flights"
            in blockstore("query", carriers, "from notes", code=1).err
        )
        assert "did you mean flights?" in blockstore("query", carriers, "from flihgts", code=1).err
        assert (
            "named without a schema"
            in blockstore("query", carriers, "from lake.flights", code=1).err
        )

    def test_a_version_is_of_the_one_table_that_the_sql_names(
        self, blockstore: Command, carriers: str
    ) -> None:
        counted = "select count(*) as n from flights"
        assert blockstore("query", carriers, counted, "--version", "2", "-o", "json").json == [
            {"n": 6}
        ]
        both = "select count(*) from flights, carriers"
        assert (
            "version 2 is for one table"
            in blockstore("query", carriers, both, "--version", "2", code=1).err
        )
        assert blockstore(
            "query", carriers, counted, "--as-of", "2999-01-01", "-o", "json"
        ).json == [{"n": 18}]

    def test_a_damaged_table_costs_no_query_that_does_not_name_it(
        self, blockstore: Command, carriers: str, tmp_path: Path
    ) -> None:
        for file in (tmp_path / "lake" / "carriers" / "index").iterdir():
            if file.is_file():
                file.write_bytes(b"x")
        assert blockstore(
            "query", carriers, "select count(*) as n from flights", "-o", "json"
        ).json == [{"n": 18}]
        assert "carriers" in blockstore("query", carriers, "from carriers", code=1).err

    def test_two_tables_of_one_name_are_refused(
        self, blockstore: Command, carriers: str, flights: str
    ) -> None:
        says = blockstore("query", carriers, flights, "select 1", code=1).err
        assert "two tables are named flights" in says


def test_what_a_lost_table_left_is_not_taken_for_tables(blockstore: Command, flights: str) -> None:
    for folder in Path(flights).iterdir():
        if is_ulid(folder.name):
            shutil.rmtree(folder)
    for entry in Path(flights, "index").rglob("*.json"):
        entry.unlink()
    assert "directly below" not in blockstore("query", flights, "select 1", code=1).err


def test_a_damaged_entry_stops_every_verb(blockstore: Command, flights: str) -> None:
    Path(f"{flights}/index/00000000000000000003.json").write_text("garbage")
    for verb in (["history"], ["ls"], ["inspect"], ["query", "select 1 from flights"]):
        assert "entry 3" in blockstore(verb[0], flights, *verb[1:], code=1).err


def test_probe_measures_a_store(blockstore: Command, lake: str) -> None:
    found = blockstore("probe", lake, "--json").json
    assert {row["name"]: row["result"] for row in found}["create-if-absent"] == "ok"
    assert "GUARANTEE" in blockstore("probe", lake).out
    assert list(Path(lake).rglob("_probe*")) == []


def test_memory_tables_work_in_one_process(
    blockstore: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    blockstore("create", "memory://cli/t", "--schema", "a:int")
    blockstore("write", "memory://cli/t", str(tmp_path / "x.csv"))
    assert blockstore(
        "query", "memory://cli/t", "select sum(a) as s from t", "-o", "json"
    ).json == [{"s": 3}]
    assert blockstore("ls", "memory://cli", "--json").json[0]["rows"] == 2
