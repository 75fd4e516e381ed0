"""The columns that catalogs show are those of a query."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import blockstore as bs
from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import READ, make_lake, settings


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("seen")
    url = make_lake(folder)
    made = bs.create(
        f"{folder}/lake/labelled?durable=false",
        schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]),
    )
    made.append(pa.table({"n": [1]}), labels={"site": "eu"})
    with three(settings(url, folder), folder / "audit.jsonl") as opened:
        yield opened


def test_labels_are_columns_in_every_catalog(doors: Three) -> None:
    with doors.raw(READ) as raw:
        asked = (
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_name = 'labelled' ORDER BY ordinal_position"
        )
        assert raw.rows(asked) == [["n", "bigint", "NO"], ["site", "text", "YES"]]
        attributes = (
            "SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "WHERE c.relname = 'labelled' ORDER BY attnum"
        )
        assert raw.rows(attributes) == [["n"], ["site"]]
        assert raw.rows("SELECT site FROM labelled") == [["eu"]]
    with doors.client(READ) as client:
        found = client.get(
            "CommandGetTables", include_schema=True, table_name_filter_pattern="labelled"
        ).to_pylist()
        (shown,) = (pa.ipc.read_schema(pa.py_buffer(one["table_schema"])) for one in found)
        assert shown.names == client.query("SELECT * FROM labelled").column_names
