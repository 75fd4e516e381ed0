"""A column of type UUID holds UUIDs in one form, by whatever way they come."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs

ID = "550e8400-e29b-41d4-a716-446655440000"
OTHER = "00000000-0000-0000-0000-00000000000a"


def ids(lake: Path) -> list[str | None]:
    found = bs.sql(str(lake), "SELECT id FROM u ORDER BY id").to_arrow()["id"].to_pylist()
    return list(found)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    bs.sql(str(tmp_path), "CREATE TABLE u (id UUID PRIMARY KEY, n INTEGER)")
    bs.sql(str(tmp_path), f"INSERT INTO u VALUES ('{ID}', 1)")
    return tmp_path


@pytest.mark.parametrize("form", [ID, ID.upper(), ID.replace("-", ""), f"{{{ID}}}"])
def test_every_form_of_a_uuid_is_one_key(lake: Path, form: str) -> None:
    with pytest.raises(bs.RowConflict):
        bs.sql(str(lake), f"INSERT INTO u VALUES ('{form}', 2)")
    bs.sql(str(lake), f"INSERT INTO u VALUES ('{form}', 2), ('{OTHER}', 3) ON CONFLICT DO NOTHING")
    bs.sql(
        str(lake),
        "INSERT INTO u VALUES ($id, 4) ON CONFLICT DO UPDATE SET n = excluded.n",
        id=form,
    )
    bs.sql(
        str(lake),
        f"MERGE INTO u USING (SELECT '{form}'::UUID AS id, 5 AS n) AS s ON u.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = u.n + s.n WHEN NOT MATCHED THEN INSERT",
    )
    bs.sql(str(lake), f"UPDATE u SET n = n + 1 WHERE id = '{form}'::UUID")
    found = bs.sql(str(lake), "FROM u ORDER BY n").to_arrow().to_pylist()
    assert found == [{"id": OTHER, "n": 3}, {"id": ID, "n": 10}]


@pytest.mark.parametrize("options", ["", " WITH (row_ids = true)"])
def test_what_is_none_is_refused(tmp_path: Path, options: str) -> None:
    bs.sql(str(tmp_path), f"CREATE TABLE u (id UUID, n INTEGER){options}")
    bs.sql(str(tmp_path), f"INSERT INTO u VALUES (NULL, 1), ('{ID.upper()}', 2)")
    for sql in (
        "INSERT INTO u VALUES ('hello', 1)",
        "INSERT INTO u SELECT 'hello', 1",
        "UPDATE u SET id = 'hello' WHERE n = 1",
        (
            "MERGE INTO u USING (SELECT 'hello' AS id, 5 AS n) AS s ON u.n = s.n "
            "WHEN NOT MATCHED THEN INSERT BY NAME"
        ),
    ):
        with pytest.raises(bs.Invalid, match="hello"):
            bs.sql(str(tmp_path), sql)
    with pytest.raises(bs.Invalid, match="id"):
        bs.open(str(tmp_path / "u")).append(pa.table({"id": [ID.upper()], "n": [1]}))
    assert ids(tmp_path) == [ID, None]
    bs.sql(str(tmp_path), f"UPDATE u SET id = '{OTHER.upper()}' WHERE n = 1")
    assert ids(tmp_path) == [OTHER, ID]


def test_an_added_column_and_defaults_have_the_form_too(tmp_path: Path) -> None:
    bs.sql(str(tmp_path), f"CREATE TABLE u (n INTEGER, a UUID DEFAULT '{ID.upper()}')")
    bs.sql(str(tmp_path), f"ALTER TABLE u ADD COLUMN id UUID DEFAULT '{OTHER.upper()}'")
    bs.sql(str(tmp_path), "INSERT INTO u (n) VALUES (1)")
    bs.sql(str(tmp_path), f"ALTER TABLE u ALTER id SET DEFAULT '{ID.upper()}'")
    bs.sql(str(tmp_path), f"INSERT INTO u VALUES (2, DEFAULT, DEFAULT), (3, '{OTHER}', DEFAULT)")
    found = bs.sql(str(tmp_path), "SELECT a, id FROM u ORDER BY n").to_arrow().to_pylist()
    assert found == [{"a": ID, "id": OTHER}, {"a": ID, "id": ID}, {"a": OTHER, "id": ID}]
    with pytest.raises(bs.Invalid):
        bs.sql(str(tmp_path), "ALTER TABLE u ALTER id SET DEFAULT 'hello'")
    bs.sql(str(tmp_path), "ALTER TABLE u ADD COLUMN s VARCHAR")
    with pytest.raises(bs.Invalid, match="cannot be widened"):
        bs.sql(str(tmp_path), "ALTER TABLE u ALTER s TYPE UUID")
