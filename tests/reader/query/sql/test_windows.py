"""A window leaves out no row of an answer, is made where it is worth it, and is read from a file
once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.reader.query import Engine
from blockstore.reader.query.sql import windows as module
from blockstore.reader.query.sql.views import parts_of
from blockstore.reader.query.sql.views import view as view_steps
from blockstore.reader.query.sql.windows import ReadPages, Windows, pages_of_file, window_over
from blockstore.scan import page_rows, plan_scan
from blockstore.scan.page_rows import PagedColumn, read_pages
from blockstore.scan.plan import ScanPlan

ROWS = 100_000
"""Of each of two blocks: five pages of a column."""
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("odd", pa.int64())])


def make(url: Path, *, odd: str = "odd", overlapping: bool = False) -> bs.Table:
    table = bs.create(
        str(url), schema=pa.schema([*list(SCHEMA)[:2], (odd, pa.int64())]), sort_by=["k"]
    )
    for block in range(2):
        first = 0 if overlapping else block * ROWS
        keys = range(first, first + ROWS)
        columns = {"k": keys, "v": [key / 2 for key in keys], odd: [key % 7 for key in keys]}
        table.append(pa.table(columns, schema=pa.schema([*list(SCHEMA)[:2], (odd, pa.int64())])))
    return table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bs.Table:
    return make(tmp_path_factory.mktemp("windows") / "t")


def planned(table: bs.Table, where: str) -> tuple[ScanPlan, dict[str, str]]:
    snapshot = table.snapshot()
    plan = plan_scan(snapshot.snapshot, where=where)
    return plan, {chunk.key: str(snapshot.bucket.path_of(chunk.key)) for chunk in plan.chunks}


def pages_of(paths: dict[str, str]) -> ReadPages:
    return lambda chunk, column: pages_of_file(paths[chunk.key], column)


def view(
    name: str, plan: ScanPlan, paths: dict[str, str], hidden: list[str], windows: dict[str, range]
) -> str:
    ((sql, _),) = view_steps(name, plan, parts_of(plan, hidden, windows), paths, hidden)
    return sql


def window(table: bs.Table, where: str) -> range | None:
    plan, paths = planned(table, where)
    assert plan.chunks
    return window_over(plan.chunks, Windows().of(plan, pages_of(paths)))


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("k BETWEEN 30000 AND 30999", range(30_000, 31_000)),
        ("k = 7 AND odd = 0", range(7, 8)),
    ],
)
def test_a_window_is_a_few_pages_around_the_rows(
    table: bs.Table, where: str, wanted: range
) -> None:
    found = window(table, where)
    assert found is not None
    assert found.start <= wanted.start < wanted.stop <= found.stop
    assert len(found) <= 50_000
    plan, paths = planned(table, where)
    sql = view("t", plan, paths, [], Windows().of(plan, pages_of(paths)))
    assert f"{module.FILE_ROW} BETWEEN {found.start} AND {found.stop - 1}" in sql


@pytest.mark.parametrize(
    "where",
    [
        "odd = 3",
        "v > 10.0 AND v < 11.0",
        "k >= 0",
        "k > 30000 AND odd IS NOT NULL",
        "k IN (7, 150000)",
        f"k BETWEEN {ROWS - 3} AND {ROWS + 2}",
        "k = 7 OR k = 170000",
    ],
)
def test_chunks_of_which_most_is_wanted_or_nothing_known_are_read_whole(
    table: bs.Table, where: str
) -> None:
    assert window(table, where) is None
    plan, paths = planned(table, where)
    assert module.FILE_ROW not in view("t", plan, paths, [], Windows().of(plan, pages_of(paths)))


def test_a_window_of_nothing_reads_nothing(table: bs.Table) -> None:
    where = "k >= 20001 AND k <= 19998"
    assert window(table, where) == range(0)
    with Engine({"t": table.snapshot()}) as engine:
        assert engine.query(f"SELECT k FROM t WHERE {where}").read_all().num_rows == 0


def test_chunks_that_are_read_alike_share_a_window_and_are_bound_once(tmp_path: Path) -> None:
    table = make(tmp_path / "t", overlapping=True)
    plan, paths = planned(table, "k = 40000")
    assert len(plan.chunks) == 2
    sql = view("t", plan, paths, [], Windows().of(plan, pages_of(paths)))
    assert sql.count("read_parquet") == 1
    assert module.FILE_ROW in sql
    with Engine({"t": table.snapshot()}) as engine:
        rows = engine.query("SELECT v FROM t WHERE k = 40000").read_all()
    assert rows["v"].to_pylist() == [20_000.0, 20_000.0]


def test_small_chunks_and_many_are_not_asked(
    table: bs.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LEAST_ROWS", ROWS + 1)
    assert window(table, "k = 7") is None
    monkeypatch.undo()
    assert window(table, "k = 7") is not None
    monkeypatch.setattr(module, "_MOST_CHUNKS", 0)
    assert window(table, "k = 7") is None


QUESTIONS = (
    "SELECT * FROM t WHERE k BETWEEN 30000 AND 30009 ORDER BY k",
    f"SELECT k, v FROM t WHERE k BETWEEN {ROWS - 3} AND {ROWS + 2} ORDER BY k",
    (
        f"SELECT _row_id, _source = '' AS s, _version, k FROM t WHERE k BETWEEN {ROWS - 3} AND "
        f"{ROWS + 2} ORDER BY k"
    ),
    "SELECT count(*), sum(v) FROM t WHERE k < 100 AND odd = 3",
    "SELECT count(*) FROM t WHERE k = 5 OR k = 150000",
    (
        "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.k = b.k - 100000 WHERE a.k < 5 AND b.k < "
        "100003 ORDER BY 1"
    ),
    (
        "SELECT k FROM t WHERE k BETWEEN 60000 AND 60001 UNION ALL SELECT k FROM t WHERE k = "
        "199999 "
        "ORDER BY 1"
    ),
    "SELECT count(*) FROM t WHERE k > 199990",
    "SELECT count(*) FROM t WHERE k > 40000 AND k < 40000",
)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_answers_are_those_of_whole_chunks(
    table: bs.Table, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine({"t": table.snapshot()}) as engine:
        found = engine.query(sql).read_all()
        again = engine.query(sql).read_all()
    monkeypatch.setattr(module, "_MOST_CHUNKS", 0)
    with Engine({"t": table.snapshot()}) as engine:
        whole = engine.query(sql).read_all()
    assert found.equals(whole)
    assert again.equals(whole)


def test_a_column_with_the_name_of_duckdb_s_row_numbers_is_the_table_s(tmp_path: Path) -> None:
    table = make(tmp_path / "t", odd="File_Row_Number")
    assert window(table, "k = 30000") is None
    with Engine({"t": table.snapshot()}) as engine:
        rows = engine.query(
            "SELECT file_row_number AS n FROM t WHERE k BETWEEN 30000 AND 30001"
        ).read_all()
    assert rows["n"].to_pylist() == [30_000 % 7, 30_001 % 7]


def test_a_file_that_has_such_a_column_undeclared_is_read_whole(
    table: bs.Table, tmp_path: Path
) -> None:
    plan, paths = planned(table, "k = 7")
    (path,) = paths.values()
    foreign = pq.read_table(path).append_column(
        "File_row_number", pa.array(range(ROWS), pa.int64())
    )
    pq.write_table(
        foreign, tmp_path / "foreign.parquet", write_page_index=True, max_rows_per_page=1_000
    )
    assert (
        Windows().of(plan, pages_of(dict.fromkeys(paths, str(tmp_path / "foreign.parquet")))) == {}
    )


def test_a_file_is_opened_once_for_a_column_and_few_are_kept(
    table: bs.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def counted(
        parquet: pq.ParquetFile, file: pa.NativeFile, column: pa.Field
    ) -> PagedColumn | None:
        opened.append(column.name)
        return read_pages(parquet, file, column)

    monkeypatch.setattr(page_rows, "read_pages", counted)
    windows = Windows()

    def ask(windows: Windows, where: str) -> None:
        plan, paths = planned(table, where)
        windows.of(plan, pages_of(paths))

    for _ in range(3):
        ask(windows, "k = 7")
    assert opened == ["k"]
    monkeypatch.setattr(module, "_MOST_KEPT", 1)
    ask(windows, "k = 150000")
    ask(windows, "k = 7")
    assert opened == ["k"] * 3


def test_a_file_that_cannot_be_read_has_no_window(table: bs.Table, tmp_path: Path) -> None:
    plan, paths = planned(table, "k = 7")
    (tmp_path / "garbage").write_bytes(b"PAR1garbagePAR1")
    for damaged in (tmp_path / "missing", tmp_path / "garbage"):
        windows = Windows()
        assert windows.of(plan, pages_of(dict.fromkeys(paths, str(damaged)))) == {}
        assert len(windows.of(plan, pages_of(paths))) == 1
