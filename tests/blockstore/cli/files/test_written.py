"""Files that other programs wrote: a table's download, with one cell changed by the program.

``written/README.md`` says which program wrote which file. Uploading each makes exactly the row
versions that ``written/expected.json`` lists, or is refused with the lines that it lists.
"""

from __future__ import annotations

import datetime
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from tests.blockstore.cli.conftest import Command

WRITTEN = Path(__file__).parent / "written"
EXPECTED: dict[str, dict[str, Any]] = json.loads((WRITTEN / "expected.json").read_text("utf-8"))
DOWNLOADS = sorted(str(path.relative_to(WRITTEN)) for path in WRITTEN.glob("*/_download.*"))
COLUMNS = [
    ("name", "string"),
    ("n", "integer"),
    ("x", "double"),
    ("ok", "boolean"),
    ("day", "date"),
    ("at", "timestamp"),
    bs.entity("gene", pattern=r"[A-Z0-9-]+"),
    ("home", "link"),
]
KEY = [("shop", "string"), ("item", "integer")]
Row = tuple[Any, ...]


def _day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def _at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text + "+00:00")


ROWS: list[Row] = [
    ("ann", 1, 0.5, True, _day("2020-01-02"), _at("2020-01-02T03:04:05"), "ABC-1",
     "https://example.org/?a=1,2"),
    ("bob, jr", None, None, None, None, None, None, None),
    ("Zoë Müller", -30, 2.25, False, _day("1999-12-31"), _at("2020-01-02T00:00:00"), "ABC-2",
     "https://example.org/ü"),
    ('say "hi"', 1234567, 1e6, True, _day("2000-02-29"), _at("2021-06-30T23:59:59"), "ABC-3", None),
    ("two\nlines", 0, -0.125, False, _day("1900-03-01"), _at("1970-01-01T00:00:00"), "ABC-4",
     "s3://bucket/a&b=c"),
    ("🎉 party", 2147483648, 100.0, True, _day("2262-04-12"), _at("2000-01-01T12:00:00"), "ABC-5",
     None),
]  # fmt: skip
"""Values that every program can keep."""

NAMES = [
    "plain", "", "007", "1E5", "=1+1", "+49 123", "-", "1,234.50", "1.50", "  spaces  ", "NULL",
    "true", "2020-01-02", "March 5", "1/2", "crlf\r\nlines", "tab\there", None, "#N/A", "'quoted",
]  # fmt: skip
DOUBLES = [
    0.1, 1e-300, 12345678.123456789, float("nan"), float("inf"), -0.0, 0.30000000000000004, None,
    2 / 3, 1e22,
]  # fmt: skip
DAYS = ["2020-01-02", "1850-12-31", None, "9999-12-31", "0001-01-01"]
TIMES = [
    "2020-01-02T03:04:05", "2020-01-02T03:04:05.123456", "2020-01-02T00:00:00", None,
    "1850-01-01T12:00:00",
]  # fmt: skip
GENES = ["SEPT2", "MARCH1", "1E5", "007", None, "2-3"]
INTEGERS = {
    "hard": [1, 123456789012345, -5, 0, None],
    "large": [1, 2**53 + 1, -5, 1234567890123456, None, 2**63 - 1],
}


def _hard(integers: list[int | None]) -> list[Row]:
    """Values that many programs change by themselves."""
    found = []
    for place, name in enumerate(NAMES):
        day, at = DAYS[place % 5], TIMES[place % 5]
        found.append(
            (
                name,
                integers[place % len(integers)],
                DOUBLES[place % 10],
                (True, False, None)[place % 3],
                None if day is None else _day(day),
                None if at is None else _at(at),
                GENES[place % 6],
                ("https://example.org/?a=1,2", None)[place % 2],
            )
        )
    return found


def _made(lake: Path, kind: str) -> str:
    url = f"{lake}/{kind}"
    if kind == "keyed":
        schema = bs.typed_schema([*KEY, *COLUMNS])
        table = bs.create(url, schema=schema, key=["shop", "item"])
        rows = [
            (f"00{place // 2}" if place % 2 else "berlin", place, *row)
            for place, row in enumerate(ROWS)
        ]
    else:
        schema = bs.typed_schema(COLUMNS)
        table = bs.create(url, schema=schema, row_ids=True)
        rows = ROWS if kind == "rows" else _hard(INTEGERS[kind])
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    data = pa.table(columns, schema=schema)
    (table.upsert if kind == "keyed" else table.append)(data)
    return url


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables, as they were when the files were downloaded."""
    lake = tmp_path_factory.mktemp("lake")
    for kind in ("rows", "hard", "large", "keyed"):
        _made(lake, kind)
    return lake


def _cells(url: str) -> dict[str, dict[str, str]]:
    """Each row's values, by what names the row."""
    table = bs.open(url)
    ids = ["_version"] if url.endswith("keyed") else ["_row_id", "_version"]
    columns = [*ids, *table.definition.schema.names]
    found = {}
    for row in table.snapshot().scan(columns=columns).to_table().to_pylist():
        name = row["_row_id"] if "_row_id" in row else f"{row['shop']},{row['item']}"
        found[str(name)] = {column: repr(value) for column, value in row.items()}
    return found


def outcome(blockstore: Command, tables: Path, tmp_path: Path, file: str) -> dict[str, Any]:
    """What a file does: the cells that it changes, or why it is refused."""
    kind = file.partition("/")[0]
    url = f"{tmp_path}/{kind}"
    shutil.copytree(tables / kind, url)
    before = _cells(url)
    code = 1 if "refused" in EXPECTED.get(file, {}) else 0
    done = blockstore("write", url, str(WRITTEN / file), "--json", code=code)
    after = _cells(url)
    if code:
        assert after == before, "nothing of a refused file is written"
        said = done.err.partition(file)[2].partition(": ")[2].partition(", expected")[0]
        listed = json.loads(done.out)["lines"] if done.out else []
        lines = sorted({one["line"] for one in listed})
        return {"refused": said, "lines": lines}
    assert sorted(after) == sorted(before), "no row is added, and none is lost"
    changed: dict[str, dict[str, list[str]]] = {}
    for name, row in after.items():
        was = before[name]
        differs = [column for column in row if row[column] != was[column]]
        if differs:
            assert differs[0] == "_version", "a value changes in a new version"
            assert differs[1:], "a row that is as it was has no new version"
            changed[name] = {column: [was[column], row[column]] for column in differs[1:]}
    assert done.json["updated"] == len(changed)
    columns = Counter(column for cells in changed.values() for column in cells)
    assert done.json["cells"] == columns
    assert done.json["unchanged"] == len(after) - len(changed)
    return {"changed": changed}


@pytest.mark.parametrize("file", DOWNLOADS)
def test_the_files_began_as_what_is_downloaded_now(
    blockstore: Command, tables: Path, tmp_path: Path, file: str
) -> None:
    kind, _, name = file.partition("/")
    form = name.rpartition(".")[2]
    order = "item" if kind == "keyed" else "_row_id"
    to = tmp_path / name
    query = f"from {kind} order by {order}"
    blockstore("query", f"{tables}/{kind}", query, "--row-ids", "-o", form, "--to", str(to))
    assert to.read_bytes() == (WRITTEN / file).read_bytes()


def test_each_file_is_listed() -> None:
    found = [str(path.relative_to(WRITTEN)) for path in WRITTEN.glob("*/*.?sv")]
    assert sorted(EXPECTED) == sorted(set(found) - set(DOWNLOADS))
    readme = (WRITTEN / "README.md").read_text("utf-8")
    assert [file for file in EXPECTED if f"`{file.partition('/')[2]}`" not in readme] == []


@pytest.mark.parametrize("file", sorted(EXPECTED))
def test_a_file_makes_exactly_the_versions_that_are_listed(
    blockstore: Command, tables: Path, tmp_path: Path, file: str
) -> None:
    assert outcome(blockstore, tables, tmp_path, file) == EXPECTED[file]
