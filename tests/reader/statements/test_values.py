"""Values of every type come through a statement unchanged, parameters reach the place that names
them, and names that could mean two things are refused."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.session import Session

MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000)
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small": (pa.int8(), [-128, 127, None]),
    "unsigned": (pa.uint64(), [0, 2**64 - 1, None]),
    "real": (pa.float32(), [-0.0, float("inf"), None]),
    "double": (pa.float64(), [0.1, float("-inf"), None]),
    "money": (pa.decimal128(38, 10), [Decimal("1.0000000001"), Decimal("-9e20"), None]),
    "text": (pa.string(), ["", "é\n'\"", None]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", None]),
    "fixed": (pa.binary(2), [b"ab", b"\x00\xff", None]),
    "day": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "seconds": (pa.timestamp("s"), [MOMENT.replace(microsecond=0)] * 2 + [None]),
    "zoned": (pa.timestamp("ms", "UTC"), [MOMENT.replace(tzinfo=datetime.UTC)] * 2 + [None]),
    "nanos": (pa.timestamp("ns"), [1_700_000_000_000_000_001, 1, None]),
    "time": (pa.time64("us"), [datetime.time(0), datetime.time(23, 59, 59, 999_999), None]),
    "long": (pa.duration("us"), [datetime.timedelta(1), datetime.timedelta(microseconds=1), None]),
    "flag": (pa.bool_(), [True, False, None]),
    "items": (pa.list_(pa.int32()), [[1, None], [], None]),
    "nested": (
        pa.struct([("x", pa.int16()), ("y", pa.list_(pa.string()))]),
        [{"x": 1, "y": ["a"]}, {"x": None, "y": None}, None],
    ),
    "pairs": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None]),
}


def rows() -> pa.Table:
    columns = {name: pa.array(values, kind) for name, (kind, values) in TYPES.items()}
    return pa.table({"k": pa.array([1, 2, 3], pa.int64()), **columns, "n": pa.array([0, 0, 0])})


@pytest.mark.parametrize("options", [{"key": "k"}, {"row_ids": True}, {}], ids=str)
def test_an_update_keeps_every_other_value(tmp_path: Path, options: dict[str, Any]) -> None:
    data = rows()
    table = bs.create(str(tmp_path / "t"), schema=data.schema, **options)
    (table.upsert if "key" in options else table.append)(data)
    assert bs.sql(str(tmp_path), "UPDATE t SET n = 1 WHERE k < 3").updated == 2
    found = bs.open(str(tmp_path / "t")).snapshot().scan().to_table().sort_by("k")
    assert found["n"].to_pylist() == [1, 1, 0]
    for name in TYPES:
        assert found[name].cast(data[name].type).equals(data[name]), name


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    bs.sql(str(tmp_path), "CREATE TABLE t (k BIGINT PRIMARY KEY, a INTEGER, s TIMESTAMP_S)")
    bs.sql(str(tmp_path), "INSERT INTO t VALUES (1, 10, NULL), (2, 20, NULL)")
    with opened(str(tmp_path)) as session:
        yield session


def run(session: Session, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
    (text,) = session.parse(sql)
    found: list[dict[str, Any]] = (
        session.run(text, Doing(parameters=parameters)).to_arrow().to_pylist()
    )
    return found


def test_numbered_parameters_reach_the_place_that_names_them(session: Session) -> None:
    changed = run(session, "UPDATE t SET a = $2 WHERE k = $1 RETURNING k, a", [1, 42])
    assert changed == [{"k": 1, "a": 42}]
    merge = (
        "MERGE INTO t USING (SELECT $1::BIGINT AS k) AS s ON t.k = s.k "
        "WHEN MATCHED AND t.a > $2 THEN UPDATE SET a = $2 WHEN MATCHED THEN DELETE"
    )
    run(session, merge, [1, 7])
    assert run(session, "SELECT k, a FROM t ORDER BY k") == [{"k": 1, "a": 7}, {"k": 2, "a": 20}]


def test_named_parameters_reach_the_place_that_names_them(session: Session) -> None:
    given = {"k": 3, "a": 30, "s": None}
    run(session, "INSERT INTO t VALUES ($k,$a,$s)", given)
    run(session, "UPDATE t SET a=$a+$k WHERE k=$k", given)
    assert run(session, "SELECT k+$k AS k,a,$a+$k AS b FROM t WHERE a=$a+$k", given) == [
        {"k": 6, "a": 33, "b": 33}
    ]
    merge = (
        "MERGE INTO t USING (SELECT $k AS k,$a AS a) AS s ON t.k=s.k "
        "WHEN MATCHED AND t.k=$k THEN UPDATE SET a=$a,s=$s"
    )
    run(session, merge, {**given, "a": 5})
    assert run(session, "SELECT a FROM t WHERE k=$k", {"k": 3}) == [{"a": 5}]
    run(session, "DELETE FROM t WHERE k>=$k AND a<=$a", given)
    assert len(run(session, "FROM t")) == 2


def test_parameters_without_a_name_are_refused(session: Session) -> None:
    with pytest.raises(bs.Invalid, match="has no name"):
        run(session, "UPDATE t SET a = ? WHERE k = ?", [1, 2])


def test_a_with_that_is_named_like_the_target_is_refused(session: Session) -> None:
    with pytest.raises(bs.Invalid, match="another name"):
        run(session, "WITH s AS (SELECT 1), T AS (SELECT 1 AS k) DELETE FROM t")
    assert len(run(session, "FROM t")) == 2


def test_a_value_that_the_column_cannot_hold_is_one_sentence(session: Session) -> None:
    for sql in (
        "UPDATE t SET a = 3000000000",
        "INSERT INTO t (k) VALUES (NULL)",
        "UPDATE t SET a = k / 0 || 'x'",
    ):
        with pytest.raises(bs.Invalid):
            run(session, sql)
    assert [row["a"] for row in run(session, "FROM t ORDER BY k")] == [10, 20]


def test_quoted_keywords_are_names(tmp_path: Path) -> None:
    bs.sql(str(tmp_path), 'CREATE TABLE q ("from" INTEGER, "where" VARCHAR) WITH (row_ids = true)')
    bs.sql(str(tmp_path), "INSERT INTO q VALUES (1, 'x')")
    done = bs.sql(
        str(tmp_path),
        'UPDATE q SET "from" = "from" + 1, "where" = \'SET\' WHERE "where" = \'x\' RETURNING *',
    )
    assert done.to_arrow().to_pylist() == [{"from": 2, "where": "SET"}]


def test_row_ids_can_be_named_and_no_star_shows_them(tmp_path: Path) -> None:
    bs.sql(
        str(tmp_path), "CREATE TABLE r WITH (row_ids = true) AS SELECT i AS n FROM range(3) x(i)"
    )
    done = bs.sql(str(tmp_path), "UPDATE r SET n = 9 WHERE _row_id = 1 RETURNING *")
    assert done.to_arrow().to_pylist() == [{"n": 9}]
    found = bs.sql(str(tmp_path), "SELECT _row_id, n FROM r ORDER BY _row_id").to_arrow()
    assert found["n"].to_pylist() == [0, 9, 2]
