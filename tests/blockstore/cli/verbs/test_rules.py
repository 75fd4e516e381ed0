"""Rules of columns on the command line: given, shown, changed, and what files must meet."""

from __future__ import annotations

from pathlib import Path

import pytest

import blockstore as bs
from tests.blockstore.cli.conftest import Command

SCHEMA = "id:entity!, name:string, age:int, home:link"
RULES = (
    r"id:pattern=syn\d+",
    "name:max_length=5",
    "age:check=age >= 0 AND age < 150",
    "age:description=in years",
    "home:default=https://example.org/?a=b",
)


def words(rules: tuple[str, ...]) -> list[str]:
    return [word for rule in rules for word in ("--rule", rule)]


@pytest.fixture
def people(blockstore: Command, lake: str) -> str:
    url = f"{lake}/people"
    blockstore("create", url, "--schema", SCHEMA, *words(RULES))
    return url


def test_rules_are_shown_for_people_and_for_programs(blockstore: Command, people: str) -> None:
    shown = blockstore("show", people).out
    for text in (r"pattern syn\d+", "max_length 5", "check age >= 0 AND age < 150", "in years"):
        assert text in shown
    columns = blockstore("show", people, "--json").json["columns"]
    assert columns == [
        {
            "name": "id",
            "type": "string",
            "nullable": False,
            "kind": "entity",
            "pattern": r"syn\d+",
        },
        {"name": "name", "type": "string", "nullable": True, "max_length": 5},
        {
            "name": "age",
            "type": "int",
            "nullable": True,
            "check": "age >= 0 AND age < 150",
            "description": "in years",
        },
        {
            "name": "home",
            "type": "string",
            "nullable": True,
            "kind": "link",
            "default": "https://example.org/?a=b",
        },
    ]


BAD = {
    "age": ("syn2,Bob,212", "column 'age' is 212 .*expected age >= 0 AND age < 150"),
    "name": ("syn2,Roberta,21", "column 'name' has 7 characters, 'Roberta', .*at most 5"),
    "id": ("x2,Bob,21", "column 'id' is 'x2' .*matches completely"),
    "null": (",Bob,21", "column 'id' is null .*declared not null"),
}


@pytest.mark.parametrize("column", BAD)
@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize("verb", ["write", "overwrite"])
def test_a_row_of_a_file_that_breaks_a_rule_is_named_by_its_line(
    blockstore: Command, people: str, tmp_path: Path, column: str, form: str, verb: str
) -> None:
    line, expected = BAD[column]
    text = f'id,name,age\nsyn1,"A\nda",36\n{line}\n'
    file = tmp_path / f"people.{form}"
    file.write_text(text.replace(",", "\t") if form == "tsv" else text)
    failed = blockstore(verb, people, str(file), code=1).err
    assert f"{file}, line 4: " in failed
    with pytest.raises(bs.Invalid, match=expected):
        raise bs.Invalid(failed)
    assert bs.open(people).snapshot().count() == 0


def test_a_column_with_a_default_may_be_missing_and_a_null_stays_one(
    blockstore: Command, people: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("age,id,name\n36,syn1,Ada\n")
    (tmp_path / "b.csv").write_text("age,id,name,home\n36,syn2,Ada,\n")
    (tmp_path / "c.jsonl").write_text('{"id": "syn3"}\n{"id": "syn4", "home": null}\n')
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv", "c.jsonl")]
    blockstore("write", people, *files)
    rows = bs.open(people).snapshot().scan(columns=["id", "home"]).to_table().to_pylist()
    home = "https://example.org/?a=b"
    assert {row["id"]: row["home"] for row in rows} == {
        "syn1": home,
        "syn2": None,
        "syn3": home,
        "syn4": None,
    }
    (tmp_path / "d.csv").write_text("age,id\n36,syn1\n")
    failed = blockstore("write", people, str(tmp_path / "d.csv"), code=1).err
    assert "line 1: the header lacks 'name', expected" in failed


def test_everything_changes_in_one_version(
    blockstore: Command, people: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("age,id,name\n36,syn1,Ada\n")
    blockstore("write", people, str(tmp_path / "a.csv"))
    failed = blockstore("alter", people, "--rule", "age:check=age < 30", code=1).err
    assert "column 'age' is 36 in a row of the table, expected age < 30" in failed
    done = blockstore(
        "alter",
        people,
        "--rename",
        "age=years",
        "--drop",
        "name,home",
        "--reorder",
        "years",
        "--add",
        "tag:entity",
        *words((r"tag:pattern=t\d", "age:check=years < 50", "id:not_null=false")),
        "--json",
    ).json
    assert done["version"] == 3
    assert done["columns"] == [
        {
            "name": "years",
            "type": "int",
            "nullable": True,
            "check": "years < 50",
            "description": "in years",
        },
        {"name": "id", "type": "string", "nullable": True, "kind": "entity", "pattern": r"syn\d+"},
        {"name": "tag", "type": "string", "nullable": True, "kind": "entity", "pattern": r"t\d"},
    ]
    assert blockstore("query", people, "select * from people", "-o", "json").json == [
        {"years": 36, "id": "syn1", "tag": None}
    ]
    blockstore("alter", people, "--rule", "years:check=", "--rule", "years:description=")
    assert blockstore("show", people, "--json").json["columns"][0] == {
        "name": "years",
        "type": "int",
        "nullable": True,
    }


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("age", "--rule is 'age', expected column:rule=value"),
        ("age:size=3", "expected column:rule=value with one of the rules not_null, max_length"),
        ("age:max_length=x", "age:max_length is 'x', expected a number of characters"),
        ("age:not_null=yes", "age:not_null is 'yes', expected true or false"),
    ],
)
def test_a_rule_that_cannot_be_read_is_a_wrong_command_line(
    blockstore: Command, people: str, rule: str, expected: str
) -> None:
    assert expected in blockstore("alter", people, "--rule", rule, code=2).err


def test_a_rule_of_no_column_and_a_rule_given_twice_are_wrong(
    blockstore: Command, lake: str
) -> None:
    make = ("create", f"{lake}/t", "--schema", "a:int")
    failed = blockstore(*make, "--rule", "b:check=a > 0", code=2).err
    assert "--rule names column 'b', which the schema does not have: a" in failed
    failed = blockstore(*make, *words(("a:check=a > 0", "a:check=a > 1")), code=2).err
    assert "--rule gives a:check twice" in failed
    failed = blockstore("show", f"{lake}/t", "--rows", code=2).err
    assert "--rows counts the rows of a block" in failed


def test_a_name_with_colons_and_dots_has_rules_too(blockstore: Command, lake: str) -> None:
    url = f"{lake}/odd"
    blockstore(
        "create", url, "--schema", '"a:b.c":int', "--rule", 'a:b.c:check="a:b.c" > 0', "--json"
    )
    assert blockstore("show", url, "--json").json["columns"][0]["check"] == '"a:b.c" > 0'
