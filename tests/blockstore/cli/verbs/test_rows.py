"""Rows that change, on the command line: create, write with row ids, upsert, insert, update,
delete-rows, row, history --row."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import blockstore as bs
from tests.blockstore.cli.conftest import Command

PEOPLE = "name,born,n\nann,1990-01-02,1\nbob,,2\n,2000-01-01,3\n"


@pytest.fixture
def people(blockstore: Command, lake: str, tmp_path: Path) -> str:
    """A table with row ids and three rows."""
    url = f"{lake}/people"
    blockstore("create", url, "--schema", "name:string, born:date, n:int", "--row-ids")
    blockstore("write", url, _file(tmp_path, PEOPLE))
    return url


@pytest.fixture
def items(blockstore: Command, lake: str, tmp_path: Path) -> str:
    """A table with a key and two rows."""
    url = f"{lake}/items"
    made = blockstore("create", url, "--schema", "sku:string, n:int", "--key", "sku")
    assert "key sku" in made.out
    blockstore("upsert", url, _file(tmp_path, "sku,n\na,1\nb,2\n"))
    return url


def _file(folder: Path, text: str, name: str = "rows.csv") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def versions(url: str, row: object) -> list[int]:
    return list(bs.open(url).row_history(row)["_version"].to_pylist())


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_a_table_goes_through_a_spreadsheet_and_one_row_has_a_new_version(
    blockstore: Command, people: str, tmp_path: Path, form: str
) -> None:
    file = str(tmp_path / f"people.{form}")
    blockstore("query", people, "from people", "--row-ids", "-o", form, "--to", file)
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = pq.read_table(file)
        assert rows.schema.names == ["_row_id", "_version", "name", "born", "n"]
        pq.write_table(rows.set_column(4, "n", pa.array([1, 20, 3])), file)
    else:
        delimiter = "," if form == "csv" else "\t"
        lines = list(csv.reader(Path(file).read_text().splitlines(), delimiter=delimiter))
        assert lines[0] == ["_row_id", "_version", "name", "born", "n"]
        assert lines[2] == ["1", "2", "bob", "", "2"]
        lines[2][4] = "20"
        with open(file, "w", newline="") as out:
            csv.writer(out, delimiter=delimiter).writerows(lines)
    done = blockstore("write", people, file, "--json").json
    assert (done["updated"], done["inserted"], done["unchanged"]) == (1, 0, 2)
    assert [versions(people, row) for row in range(3)] == [[2], [3, 2], [2]]
    assert blockstore("row", people, "1", "--json").json[0]["n"] == 20
    assert blockstore("write", people, file, code=1).err.count("it has version 3 now") == 1


def test_the_columns_whose_cells_changed_are_counted(
    blockstore: Command, people: str, items: str, tmp_path: Path
) -> None:
    text = "_row_id,_version,name,born,n\n0,2,ann,1990-01-02,7\n1,2,bob,,2\n2,2,eve,,8\n,,new,,1\n"
    done = blockstore("write", people, _file(tmp_path, text), "--json").json
    assert done["cells"] == {"name": 1, "born": 1, "n": 2}
    text = "_row_id,_version,name,born,n\n0,3,ann,,7\n1,2,bob,,2\n2,3,,,8\n"
    said = blockstore("write", people, _file(tmp_path, text)).out
    assert (
        "2 rows updated, 1 row left as they were; version 4; changed: name in 1, born in 1" in said
    )
    said = blockstore("write", items, _file(tmp_path, "_version,sku,n\n2,a,5\n2,b,2\n,c,\n")).out
    assert said.strip().endswith("; changed: n in 1")
    assert (
        "changed" not in blockstore("write", items, _file(tmp_path, "_version,sku,n\n,d,1\n")).out
    )


def test_new_and_changed_rows_are_one_version(
    blockstore: Command, people: str, tmp_path: Path
) -> None:
    text = "_row_id,_version,n,name,born\n,,9,new,\n0,2,10,ann,1990-01-02\n,,8,new,\n"
    said = blockstore("write", people, _file(tmp_path, text)).out
    assert "2 rows inserted, 1 row updated; version 3" in said
    assert sorted(bs.open(people).snapshot().scan().to_table()["n"].to_pylist()) == [2, 3, 8, 9, 10]


def test_a_file_with_ids_and_one_without_are_written_together(
    blockstore: Command, people: str, tmp_path: Path
) -> None:
    with_ids = _file(tmp_path, "_row_id,_version,name,born,n\n0,2,x,,1\n", "a.csv")
    without = _file(tmp_path, '{"name": "y", "n": 4}\n', "b.jsonl")
    done = blockstore("write", people, without, with_ids, "--json").json
    assert (done["version"], done["inserted"], done["updated"]) == (3, 1, 1)
    stale = _file(tmp_path, "_row_id,_version,name,born,n\n,,z,,1\n0,2,x,,1\n", "c.csv")
    assert "c.csv, line 3: row 0 was read at version 2" in (
        blockstore("write", people, without, stale, code=1).err
    )


@pytest.mark.parametrize("line", [",,,,", '"","","","",""', ",,  ,,"])
def test_a_line_whose_cells_were_emptied_is_no_new_row(
    blockstore: Command, people: str, items: str, tmp_path: Path, line: str
) -> None:
    head = "_row_id,_version,name,born,n\n0,2,x,,1\n"
    file = _file(tmp_path, head + f"{line}\n1,2,y,,1\n{line}\n")
    if line == ",,  ,,":
        assert blockstore("write", people, file, "--json").json["inserted"] == 2  # a text of spaces
        return
    said = blockstore("write", people, file, "--json", code=1)
    assert [one["line"] for one in said.json["lines"]] == [3, 5]
    assert "line 3: all of its fields are empty" in said.err
    assert "drop the line" in said.err
    assert bs.open(people).poll() == 2
    assert (
        "sku"
        in blockstore("write", items, _file(tmp_path, "_version,sku,n\n2,a,5\n,,\n"), code=1).err
    )


def test_a_header_says_what_another_program_did_to_it(
    blockstore: Command, people: str, items: str, tmp_path: Path
) -> None:
    for table, head in ((people, "_row_id;_version;name;born;n"), (items, "_version;sku;n")):
        file = _file(tmp_path, f"{head}\n")
        assert "with semicolons in it" in blockstore("write", table, file, code=1).err
    numbered = _file(tmp_path, ",_row_id,_version,name,born,n\n0,0,2,x,,1\n")
    said = blockstore("write", people, numbered, code=1).err
    assert "drop the first one, which has no name" in said


BAD_HEADERS = {
    "only the id": "_row_id,name,born,n\n",
    "only the version": "_version,name,born,n\n",
    "the other order": "_version,_row_id,name,born,n\n",
    "not first": "name,_row_id,_version,born,n\n",
    "twice": "_row_id,_version,_row_id,name,born,n\n",
}


@pytest.mark.parametrize("what", BAD_HEADERS)
def test_a_header_that_names_rows_in_another_way_is_refused(
    blockstore: Command, people: str, tmp_path: Path, what: str
) -> None:
    file = _file(tmp_path, BAD_HEADERS[what] + ",,new,,1\n")
    err = blockstore("write", people, file, code=1).err
    assert "both _row_id and _version as the first columns, in this order, or neither" in err
    assert bs.open(people).poll() == 2


def test_tables_without_ids_and_with_a_key_say_so(
    blockstore: Command, flights: str, items: str, tmp_path: Path
) -> None:
    file = _file(tmp_path, "_row_id,_version,sku,n\n1,2,a,1\n")
    assert "have neither ids nor a key" in blockstore("write", flights, file, code=1).err
    assert "_version as the first column and no _row_id" in (
        blockstore("write", items, file, code=1).err
    )


def test_every_wrong_line_is_listed_and_nothing_is_written(
    blockstore: Command, people: str, tmp_path: Path
) -> None:
    rows = "".join(f"{row},2,a,,1\n" for row in (0, 7, 8)) + "1,1,b,,1\n,,new,,1\n"
    stale = blockstore(
        "write", people, _file(tmp_path, "_row_id,_version,name,born,n\n" + rows), "--json", code=1
    )
    assert [(one["line"], one["column"], one["value"]) for one in stale.json["lines"]] == [
        (3, "_version", "2"),
        (4, "_version", "2"),
        (5, "_version", "1"),
    ]
    assert "the row is in the table" in stale.json["lines"][0]["rule"]
    assert "the row's version, 2" in stale.json["lines"][2]["rule"]
    half = _file(tmp_path, "_row_id,_version,name,born,n\n1,,b,,1\n,,c,,1\n,2,b,,1\n")
    said = blockstore("write", people, half, code=1)
    assert "line 2: column '_version' is empty" in said.err
    assert said.out.count("names a row by its id and its version, or neither") == 2
    bad = _file(
        tmp_path, "_row_id,_version,name,born,n\n1,2,b,,x\none,2,b,,1\n1,2,b\n0,2,b,soon,y\n"
    )
    listed = blockstore("write", people, bad, "--json", code=1).json["lines"]
    assert [(one["line"], one["column"], one["value"]) for one in listed] == [
        (2, "n", "x"),
        (3, "_row_id", "one"),
        (4, None, None),
        (5, "born", "soon"),
        (5, "n", "y"),
    ]
    assert bs.open(people).poll() == 2


def test_a_row_twice_in_a_file_is_refused(blockstore: Command, people: str, tmp_path: Path) -> None:
    file = _file(tmp_path, "_row_id,_version,name,born,n\n1,2,x,,1\n1,2,y,,1\n")
    err = blockstore("write", people, file, code=1).err
    assert f"{file}, line 3: the row id 1 is that of line 2 too, expected each once" in err
    found = blockstore("write", people, file, "--json", code=1).json["lines"]
    assert [(one["line"], one["column"], one["value"]) for one in found] == [
        (2, "_row_id", "1"),
        (3, "_row_id", "1"),
    ]


def test_a_key_twice_in_two_files_is_refused_with_both_lines(
    blockstore: Command, items: str, tmp_path: Path
) -> None:
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text("sku,n\nx,1\n")
    other.write_text("sku,n\ny,1\n\nx,2\n")
    for verb in ("upsert", "insert"):
        err = blockstore(verb, items, str(one), str(other), code=1).err
        assert f"{other}, line 4: the key (sku) 'x' is that of line 2 of {one} too" in err


def test_a_keyed_table_takes_versions_and_new_keys(
    blockstore: Command, items: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "items.csv")
    blockstore("query", items, "from items", "--row-ids", "-o", "csv", "--to", file)
    assert Path(file).read_text() == '"_version","sku","n"\n2,"a",1\n2,"b",2\n'
    done = blockstore("write", items, _file(tmp_path, "_version,sku,n\n2,a,5\n,c,3\n"), "--json")
    assert (done.json["updated"], done.json["inserted"]) == (1, 1)
    err = blockstore("write", items, _file(tmp_path, "_version,sku,n\n,c,4\n"), code=1).err
    assert "row 'c' has no version, so it is new, and it exists at version 3" in err
    assert "use upsert or insert" in (
        blockstore("write", items, _file(tmp_path, "sku,n\nd,4\n"), code=1).err
    )


def test_upsert_and_insert(blockstore: Command, items: str, tmp_path: Path) -> None:
    file = _file(tmp_path, "sku,n\nb,20\nc,30\n")
    err = blockstore("insert", items, file, code=1).err
    assert "1 of the keys exist already ('b')" in err
    done = blockstore("insert", items, file, "--on-conflict", "ignore", "--json").json
    assert (done["inserted"], done["unchanged"]) == (1, 1)
    words = ("upsert", items, file, "--app", "a", "--batch", "1")
    assert "version 4" in blockstore(*words).out
    assert "was applied" in blockstore(*words).out
    twice = _file(tmp_path, "sku,n\nb,1\nb,2\n")
    assert (
        "line 3: the key (sku) 'b' is that of line 2"
        in blockstore("upsert", items, twice, code=1).err
    )
    blockstore("upsert", items, twice, "--duplicates", "last")
    assert blockstore("row", items, "b", "--json").json[0]["n"] == 2
    wrong = _file(tmp_path, "sku,n\nb,x\nc,y\n")
    assert [
        one["line"] for one in blockstore("upsert", items, wrong, "--json", code=1).json["lines"]
    ] == [2, 3]
    assert "no file was given" in blockstore("upsert", items, code=2).err


def test_update_sets_values_as_a_file_would(blockstore: Command, people: str) -> None:
    words = ("update", people, "--set", "n=7", "--set", "born=", "--where", "name = 'ann'")
    assert "1 row updated; version 3" in blockstore(*words).out
    row = blockstore("row", people, "0", "--json").json[0]
    assert (row["n"], row["born"], row["_version"]) == (7, None, 3)
    none = ("update", people, "--set", "n=7", "--where", "name = 'zoe'")
    assert "found no row to change" in blockstore(*none).out
    for word, said in (
        ("n=x", "column 'n' cannot be 'x', expected int"),
        ("m=1", "--set names 'm', which the table does not have"),
    ):
        assert said in blockstore("update", people, "--set", word, "--where", "true", code=1).err
    assert "expected name=value" in (
        blockstore("update", people, "--set", "n", "--where", "true", code=2).err
    )
    assert bs.open(people).poll() == 3


def test_update_and_delete_take_an_isolation(blockstore: Command, people: str) -> None:
    for verb in (("update", people, "--set", "n=7"), ("delete", people)):
        wrong = blockstore(*verb, "--where", "n = 1", "--isolation", "none", code=1)
        assert "expected one of 'write-serializable', 'serializable'" in wrong.err
        given = blockstore(*verb, "--where", "n > 1000", "--isolation", "serializable")
        assert "nothing was changed" in given.out or "no row" in given.out
    old = blockstore("delete", people, "--where", "true", "--read-version", "2", code=1)
    assert "takes no read_version" in old.err


def test_rows_are_deleted_by_id_by_key_and_by_file(
    blockstore: Command, people: str, items: str, tmp_path: Path
) -> None:
    assert "version 3" in blockstore("delete-rows", people, "0", "2").out
    assert "was never given" in blockstore("delete-rows", people, "9", code=1).err
    assert "the row id is 'x', expected int" in blockstore("delete-rows", people, "x", code=1).err
    assert "one of them" in blockstore("delete-rows", people, code=2).err
    err = blockstore("row", people, "0", code=1).err
    assert "row 0 was deleted in version 3" in err
    assert blockstore("row", people, "0", "--version", "2", "--json").json[0]["name"] == "ann"
    blockstore("delete-rows", items, "--file", _file(tmp_path, "sku\nb\n"))
    assert bs.open(items).snapshot().count() == 1
    wrong = _file(tmp_path, "sku,n\nb,1\n")
    assert "names 'n'" in blockstore("delete-rows", items, "--file", wrong, code=1).err


def test_rows_of_several_labels_go_through_a_spreadsheet(
    blockstore: Command, items: str, tmp_path: Path
) -> None:
    blockstore("upsert", items, _file(tmp_path, "sku,n\na,10\nc,30\n"), "--label", "site=x")
    sheet = tmp_path / "sheet.csv"
    query = ("query", items, "from items order by n", "--row-ids", "-o", "csv", "--to", str(sheet))
    blockstore(*query)
    assert sheet.read_text().splitlines()[0] == '"_version","sku","n","site"'
    assert "left 4 rows as they were" in blockstore("write", items, str(sheet)).out
    sheet.write_text(sheet.read_text().replace('"a",10', '"a",11') + ",d,4,x\n,d,5,\n")
    did = blockstore("write", items, str(sheet), "--json").json
    assert (did["updated"], did["inserted"], len(did["blocks"])) == (1, 2, 2)
    blockstore("upsert", items, _file(tmp_path, "site,sku,n\nx,d,40\n,b,20\n"))
    assert "2 rows have the key 'd'" in blockstore("row", items, "d", code=1).err
    assert blockstore("row", items, "d", "--label", "site=x", "--json").json[0]["n"] == 40
    blockstore("delete-rows", items, "d", "--label", "site=x")
    assert blockstore("row", items, "d", "--json").json[0]["n"] == 5
    blockstore("delete-rows", items, "--file", _file(tmp_path, "sku,site\na,x\nb,\n"))
    rows = bs.open(items).snapshot().scan().to_table().to_pylist()
    assert sorted((row["site"] or "", row["sku"], row["n"]) for row in rows) == [
        ("", "a", 1),
        ("", "d", 5),
        ("x", "c", 30),
    ]
    listed = blockstore("history", items, "--row", "a", "--json").json
    assert {one["site"] for one in listed} == {"x", None}


def test_the_versions_of_a_row(blockstore: Command, people: str) -> None:
    blockstore("update", people, "--set", "n=9", "--where", "name = 'bob'")
    listed = blockstore("history", people, "--row", "1", "--json").json
    assert [(one["_version"], one["n"], one["_deleted"]) for one in listed] == [
        (3, 9, False),
        (2, 2, False),
    ]
    assert len(blockstore("history", people, "--row", "1", "-n", "1", "--json").json) == 1
    assert (
        "row 77 was never in the table" in blockstore("history", people, "--row", "77", code=1).err
    )
    assert "row 1 at version 9" in blockstore("row", people, "1", "--version", "9", code=1).err


def test_blanks_of_a_key_are_part_of_it(blockstore: Command, lake: str, tmp_path: Path) -> None:
    url = f"{lake}/blanks"
    blockstore("create", url, "--schema", "who:string, n:int", "--key", "who")
    blockstore("upsert", url, _file(tmp_path, 'who,n\n"a",1\n"a ",2\n" a",3\n'))
    for key, n in (("a", 1), ("a ", 2), (" a", 3), ('["a "]', 2)):
        assert blockstore("row", url, key, "--json").json[0]["n"] == n
    blockstore("delete-rows", url, "a ")
    assert [blockstore("row", url, key, "--json").json[0]["n"] for key in ("a", " a")] == [1, 3]
    assert blockstore("row", url, "a\t", code=1).err.startswith("error: ")


def test_a_key_of_several_columns_is_named_as_json(
    blockstore: Command, lake: str, tmp_path: Path
) -> None:
    url = f"{lake}/days"
    schema = "who:string, day:date, n:int"
    blockstore("create", url, "--schema", schema, "--key", "who,day")
    blockstore("upsert", url, _file(tmp_path, "who,day,n\na,2026-01-31,1\n"))
    assert blockstore("row", url, '["a", "2026-01-31"]', "--json").json[0]["n"] == 1
    assert "expected a JSON array with a value for each column of the key (who, day)" in (
        blockstore("row", url, "a", code=1).err
    )
    assert "the key's column 'day' is 'soon', expected date" in (
        blockstore("row", url, '["a", "soon"]', code=1).err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--row-ids", "--key", "n"), "either identifies a row"),
        (("--key", "m"), "the key names 'm'"),
        (("--row-ids", "--no-index"), "--no-index cannot be combined"),
    ],
)
def test_tables_that_cannot_be(
    blockstore: Command, lake: str, words: tuple[str, ...], said: str
) -> None:
    code = 2 if "--no-index" in words else 1
    assert said in blockstore("create", f"{lake}/t", "--schema", "n:int", *words, code=code).err


def test_row_ids_are_added_to_queries_of_rows_only(blockstore: Command, people: str) -> None:
    said = blockstore(
        "query", people, "select n from people order by 1 desc", "--row-ids", "-o", "json"
    )
    assert said.json == [
        {"_row_id": 2, "_version": 2, "n": 3},
        {"_row_id": 1, "_version": 2, "n": 2},
        {"_row_id": 0, "_version": 2, "n": 1},
    ]
    for sql, found in {
        "select n from people group by n": "groups",
        "select distinct n from people": "a DISTINCT",
        "select * from people p join people q on true": "a join",
        "from people union all from people": "a UNION",
        "with x as (from people) from x": "a WITH",
        "from people order by all": "ORDER BY ALL",
    }.items():
        assert found in blockstore("query", people, sql, "--row-ids", code=1).err
    moved = blockstore(
        "query", people, "select n, _row_id from people limit 1", "--row-ids", "-o", "csv"
    )
    assert moved.out.startswith('"_row_id","_version","n"\n')


def test_delete_by_condition_speaks_of_rows(blockstore: Command, people: str) -> None:
    assert "would delete 3 rows" in blockstore("delete", people, "--where", "true", "--dry-run").out
    assert "deleted 1 row of" in blockstore("delete", people, "--where", "n = 1").out


def test_a_download_after_changes_has_the_current_rows_and_goes_back_again(
    blockstore: Command, people: str, tmp_path: Path
) -> None:
    blockstore("update", people, "--set", "n=20", "--where", "name = 'bob'")
    blockstore("delete-rows", people, "0")
    file = str(tmp_path / "people.csv")
    blockstore("query", people, "from people", "--row-ids", "-o", "csv", "--to", file)
    rows = list(csv.DictReader(Path(file).read_text().splitlines()))
    assert sorted((row["_row_id"], row["_version"], row["n"]) for row in rows) == [
        ("1", "3", "20"),
        ("2", "2", "3"),
    ]
    assert blockstore("write", people, file, "--json").json["unchanged"] == 2
    assert bs.open(people).poll() == 4
