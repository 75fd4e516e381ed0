"""BEGIN … COMMIT: one version of one table, or nothing; read inside, refused over two tables, and
computed again where others changed its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.index.log import Log
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.transaction import Block, Transaction, carry_out, grouped

TABLES = {
    "key": "(k BIGINT PRIMARY KEY, a INTEGER)",
    "ids": "(k BIGINT, a INTEGER) WITH (row_ids = true)",
    "plain": "(k BIGINT, a INTEGER)",
}
MADE = "INSERT INTO {t} VALUES (1, 10), (2, 20), (3, 30)"
ALL = (
    "BEGIN; UPDATE {t} SET a = a + 1; INSERT INTO {t} VALUES (4, 40), (5, 50);"
    "UPDATE {t} SET a = a * 2 WHERE k > 2; DELETE FROM {t} WHERE k IN (1, 5);"
    "INSERT INTO {t} SELECT 9, sum(a) FROM {t}; COMMIT"
)
LEFT = [(2, 21), (3, 62), (4, 80), (9, 163)]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    for name, columns in TABLES.items():
        bs.sql(str(tmp_path), f"CREATE TABLE {name} {columns}; {MADE.format(t=name)}")
    return str(tmp_path)


def rows(lake: str, table: str) -> list[tuple[object, ...]]:
    found = bs.sql(lake, f"SELECT * FROM {table} ORDER BY ALL").to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def table_of(lake: str, name: str) -> bs.Table:
    return bs.open(f"{lake}/{name}")


@pytest.mark.parametrize("name", TABLES)
def test_a_transaction_is_one_version_and_its_statements_see_those_before(
    lake: str, name: str
) -> None:
    done = bs.sql(lake, ALL.format(t=name), message="all")
    assert (done.version, done.inserted, done.updated, done.deleted) == (3, 3, 6, 2)
    assert str(done) == "COMMIT: 3 inserted, 6 updated, 2 deleted, version 3"
    assert rows(lake, name) == LEFT
    (entry,) = table_of(lake, name).log.entries(3, 3)
    assert (entry.operation, entry.message) == ("merge", "all")
    assert "a * 2" in str(entry.parameters["statement"])
    live = {block.ulid for block in entry.add}
    assert all(parent.ulid not in live for block in entry.add for parent in block.meta.parents)


@pytest.mark.parametrize("name", ["key", "ids"])
def test_the_feed_has_one_change_of_each_row(lake: str, name: str) -> None:
    bs.sql(lake, ALL.format(t=name))
    found = table_of(lake, name).changes(after=2).to_table().to_pylist()
    assert sorted((row["k"], row["_change"], row["a"]) for row in found) == [
        (1, "delete", 10),
        (2, "update", 21),
        (3, "update", 62),
        (4, "insert", 80),
        (9, "insert", 163),
    ]


@pytest.mark.parametrize("name", TABLES)
def test_a_statement_that_fails_and_a_rollback_leave_nothing(lake: str, name: str) -> None:
    assert str(bs.sql(lake, f"BEGIN; DELETE FROM {name}; ROLLBACK")) == (
        "ROLLBACK: nothing was changed"
    )
    with pytest.raises(bs.Invalid):
        bs.sql(lake, f"BEGIN; DELETE FROM {name} WHERE k = 1; UPDATE {name} SET a = 'x'; COMMIT")
    assert rows(lake, name) == [(1, 10), (2, 20), (3, 30)]
    assert table_of(lake, name).log.state.version == 2


def test_what_cancels_out_is_no_version(lake: str) -> None:
    sql = "BEGIN; INSERT INTO ids VALUES (7, 7); DELETE FROM ids WHERE k = 7; COMMIT"
    assert bs.sql(lake, sql).version is None
    assert bs.sql(lake, "BEGIN; SELECT 1; COMMIT").version is None
    assert bs.sql(lake, "BEGIN; COMMIT").version is None


@pytest.mark.parametrize("name", TABLES)
def test_queries_inside_see_its_rows_and_no_other_process_does(lake: str, name: str) -> None:
    with opened(lake) as session:
        (block,) = grouped(
            session.parse(
                f"BEGIN; SELECT count(*) AS n FROM {name}; DELETE FROM {name} WHERE k = 1 "
                f"RETURNING a; SELECT count(*) AS n FROM {name}; SELECT max(x.k) AS n FROM {name} "
                f"AS x JOIN key USING (k); COMMIT"
            )
        )
        assert isinstance(block, Block)
        outcomes = carry_out(session, block, Doing())
        found = [one.to_arrow().to_pylist() for one in outcomes[:-1]]
        assert found == [[{"n": 3}], [{"a": 10}], [{"n": 2}], [{"n": 3}]]
        transaction = Transaction(session, Doing())
        for text in session.parse(f"DELETE FROM {name}; INSERT INTO {name} VALUES (8, 8)"):
            transaction.run(text)
        assert rows(lake, name) == [(2, 20), (3, 30)]
        assert transaction.commit().version == 4
        assert rows(lake, name) == [(8, 8)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("BEGIN; DELETE FROM key;\nDELETE FROM ids; COMMIT", "one version of one table.*line 2"),
        ("BEGIN; DELETE FROM key", "does not end.*line 1, column 1"),
        ("DELETE FROM key; COMMIT", "COMMIT ends nothing.*column 18"),
        ("ROLLBACK", "ROLLBACK ends nothing"),
        ("BEGIN; BEGIN; DELETE FROM key; COMMIT", "open already.*column 8"),
        ("BEGIN; CREATE TABLE u (a INT); COMMIT", "CREATE is not possible in a transaction"),
        ("BEGIN; CALL tag('key', 'x'); COMMIT", "CALL is not possible in a transaction"),
        ("BEGIN TRANSACTION READ ONLY; DELETE FROM key; COMMIT", "no options.*column 19"),
        ("DELETE FROM key; BEGIN; DELETE FROM key; DELETE FROM ids; COMMIT", "one table"),
    ],
)
def test_other_forms_are_refused_before_anything_is_written(lake: str, sql: str, said: str) -> None:
    with pytest.raises(bs.Invalid, match=f"(?s){said}"):
        bs.sql(lake, sql)
    assert [table_of(lake, name).log.state.version for name in TABLES] == [2, 2, 2]


def test_the_words_of_sql_and_of_postgres_mean_the_same(lake: str) -> None:
    for begin, end in (("START TRANSACTION", "END"), ("begin work", "commit work")):
        assert bs.sql(lake, f"{begin}; UPDATE key SET a = a + 1; {end};").updated == 3
    assert bs.sql(lake, "BEGIN; UPDATE key SET a = 0; ABORT").version is None


def test_a_job_is_done_once(lake: str) -> None:
    for name in TABLES:
        first = bs.sql(lake, ALL.format(t=name), job=bs.Job("nightly", 1))
        again = bs.sql(lake, ALL.format(t=name), job=bs.Job("nightly", 1))
        assert (first.already, again.already, again.version) == (False, True, first.version)
        assert rows(lake, name) == LEFT
    with pytest.raises(bs.Invalid, match="one transaction"):
        bs.sql(lake, "BEGIN; COMMIT; DELETE FROM key", job=bs.Job("nightly", 2))


@pytest.mark.parametrize("name", TABLES)
def test_a_job_that_changes_no_row_changes_none_later(lake: str, name: str) -> None:
    text = f"BEGIN; DELETE FROM {name} WHERE k > 100; UPDATE {name} SET a = 0 WHERE k > 99; COMMIT"
    assert bs.sql(lake, text, job=bs.Job("nightly", 1)).deleted == 0
    bs.sql(lake, f"INSERT INTO {name} VALUES (101, 1)")
    assert bs.sql(lake, text, job=bs.Job("nightly", 1)).already
    assert rows(lake, name)[-1] == (101, 1)


@pytest.fixture
def rival(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets another process be faster, once, when a transaction commits."""

    def before_commit(act: Callable[[], object]) -> None:
        acts = [act]
        commit = Log.commit

        def late(self: Log, change: object) -> object:
            if acts:
                acts.pop()()
            return commit(self, change)  # type: ignore[arg-type]

        monkeypatch.setattr(Log, "commit", late)

    return before_commit


def test_a_rival_on_a_row_that_only_the_first_statement_touched_is_seen(
    lake: str, rival: Callable[[Callable[[], object]], None]
) -> None:
    for name in ("key", "ids"):
        other = table_of(lake, name)
        rival(lambda other=other: other.update({"a": 100}, where="k = 1"))
        bs.sql(
            lake, f"BEGIN; UPDATE {name} SET a = a + 1; UPDATE {name} SET a = 0 WHERE k > 1; COMMIT"
        )
        assert rows(lake, name) == [(1, 101), (2, 0), (3, 0)]


def test_a_rival_that_inserts_a_key_is_seen_even_where_it_was_deleted_again(
    lake: str, rival: Callable[[Callable[[], object]], None]
) -> None:
    other = table_of(lake, "key")
    rows_ = pa.table({"k": [7], "a": [70]}, other.definition.schema)
    rival(lambda: other.upsert(rows_))
    sql = "BEGIN; INSERT INTO key VALUES (7, 7); DELETE FROM key WHERE k = 7; COMMIT"
    with pytest.raises(bs.RowConflict, match="exist already"):
        bs.sql(lake, sql)
    assert rows(lake, "key")[-1] == (7, 70)


def test_rows_that_others_insert_meanwhile_have_ids_of_their_own(
    lake: str, rival: Callable[[Callable[[], object]], None]
) -> None:
    other = table_of(lake, "ids")
    rival(lambda: other.append(pa.table({"k": [8], "a": [80]}, other.definition.schema)))
    bs.sql(lake, ALL.format(t="ids"))
    assert rows(lake, "ids") == sorted([*LEFT, (8, 80)])
    found = other.snapshot().scan(columns=["_row_id"]).to_table()["_row_id"].to_pylist()
    assert len(set(found)) == 5


def test_blocks_that_a_rival_replaces_are_computed_again(
    lake: str, rival: Callable[[Callable[[], object]], None]
) -> None:
    rival(lambda: bs.sql(lake, "UPDATE plain SET a = 100 WHERE k = 3"))
    bs.sql(
        lake, "BEGIN; UPDATE plain SET a = a + 1; UPDATE plain SET a = a * 2 WHERE k < 3; COMMIT"
    )
    assert rows(lake, "plain") == [(1, 22), (2, 42), (3, 101)]


def test_a_table_that_is_read_is_read_at_one_version(lake: str) -> None:
    with opened(lake) as session:
        transaction = Transaction(session, Doing())
        (first,) = session.parse("INSERT INTO ids SELECT k + 10, a FROM key")
        transaction.run(first)
        bs.sql(lake, "DELETE FROM key")
        (second,) = session.parse("UPDATE ids SET a = 1 WHERE k IN (SELECT k + 10 FROM key)")
        assert transaction.run(second).updated == 3
        transaction.commit()
    assert rows(lake, "ids")[3:] == [(11, 1), (12, 1), (13, 1)]


def test_a_table_that_was_read_first_is_changed_as_it_was_read(lake: str) -> None:
    with opened(lake) as session:
        transaction = Transaction(session, Doing())
        (look,) = session.parse("SELECT count(*) FROM key")
        transaction.run(look)
        table_of(lake, "key").update({"a": 100}, where="k = 1")
        (change,) = session.parse("UPDATE key SET a = a + 1")
        transaction.run(change)
        with pytest.raises(bs.RowConflict):
            transaction.commit()
    assert rows(lake, "key") == [(1, 100), (2, 20), (3, 30)]


def test_a_table_without_an_index_is_refused(tmp_path: Path) -> None:
    table = bs.create(str(tmp_path / "bare"), schema=pa.schema([("k", pa.int64())]), index=False)
    table.append(pa.table({"k": [1]}))
    with pytest.raises(bs.Invalid, match="no index, which a transaction needs"):
        bs.sql(str(tmp_path / "bare"), "BEGIN; DELETE FROM bare; COMMIT")
