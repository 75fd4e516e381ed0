"""Sessions: transactions, cursors, portals with limits, COPY, settings and parameters."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from tests.reader.http.gateways import READ
from tests.reader.postgres.raw import (
    SYNC,
    Doors,
    Raw,
    bind,
    both,
    describe,
    error_of,
    execute,
    frame,
    parse,
    query,
    row_of,
    settings_of,
    text,
)

SLOW = "SELECT count(*) FROM range(100_000_000_000) t(i) WHERE i % 7 = 3"
KEYED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("ok", pa.bool_()),
        pa.field("raw", pa.binary()),
    ]
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("sessions")
    asked = settings_of(folder)
    bs.create(f"{folder}/lake/people?durable=false", schema=KEYED, key=["id"])
    with both(asked) as made:
        yield made


@pytest.fixture
def one(own: Doors) -> Iterator[Raw]:
    with own.client() as made:
        yield made
    with own.client() as after:
        after.ask("DELETE FROM people")


def state(found: list[tuple[str, bytes]]) -> str:
    return found[-1][1].decode()


def tags(found: list[tuple[str, bytes]]) -> list[str]:
    return [body[:-1].decode() for kind, body in found if kind == "C"]


def test_a_transaction_reads_one_snapshot_and_its_own_changes(own: Doors, one: Raw) -> None:
    assert state(one.ask("BEGIN")) == "T"
    assert one.rows("SELECT count(*) FROM people") == [["0"]]
    with own.client() as other:
        assert tags(other.ask("INSERT INTO people VALUES (1, 'other', true, NULL)")) == [
            "INSERT 0 1"
        ]
    assert one.rows("SELECT count(*) FROM people") == [["0"]]
    assert tags(one.ask("INSERT INTO people VALUES (2, 'own', true, NULL)")) == ["INSERT 0 1"]
    assert one.rows("SELECT id FROM people") == [["2"]]
    assert state(one.ask("ROLLBACK")) == "I"
    assert one.rows("SELECT id FROM people") == [["1"]]


def test_a_commit_is_one_version_and_is_read_at_once(own: Doors, one: Raw) -> None:
    handle = own.served.gateway.tables.table("people")
    before = handle.poll()
    found = one.ask(
        "BEGIN; INSERT INTO people (id, name) VALUES (5, 'a'), (6, 'b');"
        "UPDATE people SET name = 'z' WHERE id = 5; COMMIT"
    )
    assert tags(found) == ["BEGIN", "INSERT 0 2", "UPDATE 1", "COMMIT"]
    assert one.rows("SELECT name FROM people ORDER BY id") == [["z"], ["b"]]
    assert handle.poll() == before + 1


@pytest.mark.parametrize(
    ("sql", "tag"),
    [
        ("INSERT INTO people (id, name) VALUES (7, 'b') ON CONFLICT DO NOTHING", "INSERT 0 0"),
        ("INSERT INTO people (id) VALUES (7), (8) ON CONFLICT DO NOTHING", "INSERT 0 1"),
        ("UPDATE people SET name = name WHERE id = 7", "UPDATE 1"),
        ("UPDATE people SET name = 'b' WHERE id = 9", "UPDATE 0"),
        ("DELETE FROM people WHERE id > 6", "DELETE 1"),
        (
            "MERGE INTO people USING (SELECT 7 AS n) ON id = n WHEN MATCHED THEN DO NOTHING",
            "MERGE 0",
        ),
    ],
)
def test_the_rows_that_are_left_as_they_are_do_not_count(one: Raw, sql: str, tag: str) -> None:
    one.ask("DELETE FROM people")
    one.ask("INSERT INTO people (id, name) VALUES (7, 'a')")
    assert tags(one.ask(f"BEGIN; {sql}; ROLLBACK")) == ["BEGIN", tag, "ROLLBACK"]
    assert tags(one.ask(sql)) == [tag]


def test_after_a_failure_a_transaction_can_only_be_rolled_back(one: Raw) -> None:
    one.ask("BEGIN")
    assert state(one.ask("SELECT nope FROM people")) == "E"
    assert one.fails("SELECT 1")["C"] == "25P02"
    assert tags(one.ask("COMMIT")) == ["ROLLBACK"]
    assert one.rows("SELECT 1") == [["1"]]


def test_a_conflict_with_another_writer_fails_the_commit_and_leaves_nothing(
    own: Doors, one: Raw
) -> None:
    one.ask("INSERT INTO people VALUES (1, 'first', true, NULL)")
    one.ask("BEGIN; UPDATE people SET name = 'mine' WHERE id = 1")
    with own.client() as other:
        other.ask("UPDATE people SET name = 'theirs' WHERE id = 1")
    assert one.fails("COMMIT")["C"] == "40001"
    assert one.rows("SELECT name FROM people") == [["theirs"]]


READ_BY = {
    "a query": "SELECT count(*) FROM {t} WHERE active",
    "a cursor": "DECLARE c CURSOR FOR SELECT id FROM {t} WHERE active; FETCH ALL c",
    "COPY": "COPY (SELECT id FROM {t} WHERE active) TO STDOUT",
}


@pytest.mark.parametrize("how", READ_BY)
@pytest.mark.parametrize("isolation", ["serializable", "write-serializable"])
def test_what_a_transaction_has_read_of_a_serializable_table_must_still_be_so(
    own: Doors, one: Raw, how: str, isolation: str
) -> None:
    """Each of two callers leaves if the other one stays."""
    name = f"shift_{how.split()[-1].lower()}_{isolation.partition('-')[0]}"
    bs.sql(
        own.served.gateway.tables.table("people").bucket.url.rpartition("/")[0],
        f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, active BOOLEAN) "
        f"WITH (isolation = '{isolation}'); INSERT INTO {name} VALUES (1, true), (2, true)",
    )
    own.served.gateway.tables.poll_now()
    one.ask("BEGIN")
    one.ask(READ_BY[how].format(t=name))
    one.ask(f"UPDATE {name} SET active = false WHERE id = 1")
    with own.client() as other:
        other.ask(f"UPDATE {name} SET active = false WHERE id = 2")
    if isolation == "serializable":
        assert one.fails("COMMIT")["C"] == "40001"
    else:
        assert tags(one.ask("COMMIT")) == ["COMMIT"]
    left = one.rows(f"SELECT id FROM {name} WHERE active")
    assert left == ([["1"]] if isolation == "serializable" else [])


def test_savepoints_undo_reads_and_never_a_change(one: Raw) -> None:
    one.ask("BEGIN; SAVEPOINT a")
    assert state(one.ask("SELECT nope FROM people")) == "E"
    assert state(one.ask("ROLLBACK TO SAVEPOINT a")) == "T"
    one.ask("INSERT INTO people (id) VALUES (1)")
    assert one.fails("ROLLBACK TO a")["C"] == "0A000"
    one.ask("ROLLBACK")
    assert one.rows("SELECT count(*) FROM people") == [["0"]]


@pytest.mark.parametrize(
    "wrong",
    [
        "INSERT INTO people (id) VALUES (1)",
        "INSERT INTO people (id) VALUES (1) RETURNING id",
        "INSERT INTO people (id) VALUES (NULL)",
        "UPDATE people SET nope = 1",
        "UPDATE people SET id = CAST(name AS INTEGER)",
        "DELETE FROM nope",
    ],
)
@pytest.mark.parametrize("before", ["", "INSERT INTO people (id) VALUES (2)"])
def test_a_change_that_failed_is_undone_to_a_savepoint(one: Raw, before: str, wrong: str) -> None:
    one.ask("INSERT INTO people (id, name) VALUES (1, 'first')")
    one.ask("BEGIN")
    one.ask(before)
    one.ask("SAVEPOINT a")
    for _ in range(2):
        assert one.fails(wrong)["C"]
        assert state(one.ask("ROLLBACK TO SAVEPOINT a")) == "T"
    assert tags(one.ask("INSERT INTO people (id) VALUES (3)")) == ["INSERT 0 1"]
    assert one.fails(wrong)["C"]
    assert one.fails("ROLLBACK TO a")["C"] == "0A000"
    one.ask("ROLLBACK")
    one.ask("BEGIN")
    one.ask(before)
    one.ask("SAVEPOINT a")
    assert one.fails(wrong)["C"]
    one.ask("ROLLBACK TO a")
    one.ask("INSERT INTO people (id) VALUES (3)")
    assert tags(one.ask("COMMIT")) == ["COMMIT"]
    own = [["2"]] if before else []
    assert one.rows("SELECT id FROM people ORDER BY id") == [["1"], *own, ["3"]]


def test_a_change_that_failed_does_not_choose_the_table(own: Doors, one: Raw) -> None:
    one.ask("INSERT INTO people (id) VALUES (1)")
    one.ask("BEGIN")
    assert one.rows("SELECT count(*) FROM people") == [["1"]]
    one.ask("SAVEPOINT a")
    assert one.fails("INSERT INTO people (id) VALUES (1)")["C"] == "23505"
    one.ask("ROLLBACK TO a")
    with own.client() as other:
        other.ask("INSERT INTO people (id) VALUES (9)")
    assert one.rows("SELECT count(*) FROM people") == [["1"]]
    assert tags(one.ask("DELETE FROM flights WHERE false")) == ["DELETE 0"]
    assert tags(one.ask("COMMIT")) == ["COMMIT"]


def test_a_read_only_transaction_refuses_changes(one: Raw) -> None:
    one.ask("BEGIN READ ONLY")
    assert one.fails("INSERT INTO people (id) VALUES (1)")["C"] == "25006"
    one.ask("ROLLBACK; SET default_transaction_read_only = on")
    assert one.fails("DELETE FROM people")["C"] == "25006"


def test_a_reader_changes_nothing(own: Doors) -> None:
    with own.client(READ) as reader:
        for sql in (
            "INSERT INTO people (id) VALUES (1)",
            "INSERT INTO people (id) VALUES (1) RETURNING id",
            "COPY people FROM STDIN",
            "BEGIN; DELETE FROM people",
        ):
            assert reader.fails(sql)["C"] == "42501", sql
            reader.ask("ROLLBACK")


def test_serializable_is_refused_and_read_only_can_be_set_later(one: Raw) -> None:
    for sql in (
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ):
        assert one.fails(sql)["C"] == "0A000"
    one.ask("BEGIN; SET TRANSACTION READ ONLY")
    assert one.fails("DELETE FROM people")["C"] == "25006"
    one.ask("ROLLBACK; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    assert one.fails("DELETE FROM people")["C"] == "25006"
    one.ask("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
    assert tags(one.ask("DELETE FROM people")) == ["DELETE 0"]


def test_a_statement_ends_at_its_timeout(one: Raw) -> None:
    one.ask("SET statement_timeout = '200ms'")
    assert one.fails(SLOW)["C"] == "57014"
    one.send(parse(SLOW), bind(), describe(b"P"), execute(), SYNC)
    assert b"57014" in next(body for kind, body in one.until_ready() if kind == "E")
    assert one.fails("SET statement_timeout = soon")["C"] == "22023"
    assert one.rows("SELECT 1") == [["1"]]


def test_the_time_zone_of_a_machine_is_a_warning_and_times_stay_in_utc(own: Doors) -> None:
    with own.client(TimeZone="Europe/Berlin") as made:
        assert made.rows("SHOW timezone") == [["UTC"]]
        assert made.rows("SELECT time FROM flights WHERE n = 0") == [["2026-01-01 00:00:00+00"]]


def test_columns_that_changed_since_a_statement_was_prepared_are_said(
    own: Doors, tmp_path: Path
) -> None:
    with own.client() as one:
        one.send(parse("SELECT * FROM salaries", "kept"), describe(b"S", "kept"), SYNC)
        one.until_ready()
        handle = own.served.gateway.tables.table("salaries")
        handle.alter(add=[pa.field("more", pa.int32())])
        own.served.gateway.tables.poll_now("salaries")
        one.send(bind(name="kept"), execute(), SYNC)
        (error,) = [error_of(body) for kind, body in one.until_ready() if kind == "E"]
        assert error["C"] == "0A000"
        assert error["M"].startswith("cached plan must not change result type")
        assert one.rows("SELECT count(*) FROM salaries") == [["10"]]


def test_a_statement_whose_columns_have_other_names_by_now_returns_nothing(tmp_path: Path) -> None:
    """As many columns as before, and others: their rows would come under the old names."""
    asked = settings_of(tmp_path)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = bs.create(f"{tmp_path}/lake/moved?durable=false", schema=schema, row_ids=True)
    table.append(pa.table({"a": [1], "b": [2]}))
    texts = {
        "query": "SELECT * FROM moved",
        "change": "UPDATE moved SET b = b + 1 RETURNING *",
        "inserts": "INSERT INTO moved VALUES ($1, $2)",
    }
    with both(asked) as doors, doors.client() as one:
        for name, sql in texts.items():
            one.send(parse(sql, name), describe(b"S", name), SYNC)
            assert not [body for kind, body in one.until_ready() if kind == "E"]
        table.alter(drop=["a"], add=[pa.field("c", pa.int64())])
        doors.served.gateway.tables.poll_now("moved")
        for name in ("query", "change"):
            one.send(bind(name=name), execute(), SYNC)
            (error,) = [error_of(body) for kind, body in one.until_ready() if kind == "E"]
            assert error["M"].startswith("cached plan must not change result type"), name
        # What is refused has changed nothing.
        assert one.rows("SELECT b, c FROM moved") == [["2", None]]
        # An INSERT is for the columns that there are when it is carried out.
        one.send(bind((b"7", b"8"), name="inserts"), execute(), SYNC)
        assert not [body for kind, body in one.until_ready() if kind == "E"]
        assert one.rows("SELECT b, c FROM moved WHERE b > 2") == [["7", "8"]]


def test_columns_of_one_name_are_returned_under_it(one: Raw) -> None:
    one.send(parse("SELECT 1 AS a, 2 AS a, 3 AS a_1", "kept"), describe(b"S", "kept"), SYNC)
    one.until_ready()
    one.send(bind(name="kept"), execute(), SYNC)
    assert [row_of(body) for kind, body in one.until_ready() if kind == "D"] == [["1", "2", "3"]]


def test_a_prepared_query_of_settings_and_catalogs_says_what_they_are_now(one: Raw) -> None:
    one.ask("SET application_name = 'before'")
    one.send(parse("SELECT current_setting('application_name')", "kept"), SYNC)
    one.until_ready()
    for value in ("after", "later"):
        one.ask(f"SET application_name = '{value}'")
        one.send(bind(name="kept"), execute(), SYNC)
        assert [row_of(body) for kind, body in one.until_ready() if kind == "D"] == [[value]]


def test_returning_brings_the_rows_in_and_outside_of_a_transaction(one: Raw) -> None:
    assert one.rows("INSERT INTO people (id, name) VALUES (1, 'a') RETURNING id, name") == [
        ["1", "a"]
    ]
    one.ask("BEGIN")
    assert one.rows("UPDATE people SET name = 'b' WHERE id = 1 RETURNING name") == [["b"]]
    one.ask("COMMIT")
    assert one.rows("SELECT name FROM people") == [["b"]]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE people AS p SET name = 'c' WHERE p.id = $1 RETURNING p.id, upper(p.name) AS name",
        (
            "MERGE INTO people AS p USING (SELECT $1::BIGINT AS id) AS s ON p.id = s.id WHEN "
            "MATCHED THEN UPDATE SET name = 'c' RETURNING merge_action, p.name"
        ),
        "DELETE FROM people WHERE id = $1 RETURNING *",
    ],
)
def test_what_a_change_returns_is_described_before_it_has_values(one: Raw, sql: str) -> None:
    one.ask("INSERT INTO people (id, name) VALUES (1, 'a')")
    one.send(parse(sql, "kept"), describe(b"S", "kept"), SYNC)
    found = one.until_ready()
    assert not [error_of(body) for kind, body in found if kind == "E"]
    (columns,) = [body for kind, body in found if kind == "T"]
    one.send(bind((b"1",), "kept"), execute(), SYNC)
    found = one.until_ready()
    assert not [error_of(body) for kind, body in found if kind == "E"]
    (row,) = [row_of(body) for kind, body in found if kind == "D"]
    assert len(row) == struct.unpack_from("!h", columns)[0]


def test_digits_that_are_no_number_are_refused(one: Raw) -> None:
    one.send(parse("SELECT $1000000000"), describe(b"S"), SYNC)
    errors = [error_of(body) for kind, body in one.until_ready() if kind == "E"]
    assert [error["M"] for error in errors] == [
        "the parameter $1000000000 is too high: write $1 to $65535"
    ]
    one.ask("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT n FROM flights ORDER BY n")
    for count in ("²", "9" * 5_000):
        assert one.fails(f"FETCH {count} FROM c")["C"] in ("0A000", "42601")
        one.ask("ROLLBACK")
        one.ask("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT n FROM flights ORDER BY n")
    one.ask("ROLLBACK")


def test_a_cursor_moves_forward_in_its_transaction(one: Raw) -> None:
    assert one.fails("DECLARE c CURSOR FOR SELECT 1")["C"] == "25P01"
    one.ask("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT n FROM flights ORDER BY n")
    assert one.rows("FETCH 2 FROM c") == [["0"], ["1"]]
    assert one.rows("FETCH NEXT FROM c") == [["2"]]
    assert tags(one.ask("MOVE 10 IN c")) == ["MOVE 10"]
    assert len(one.rows("FETCH ALL FROM c")) == 1000 - 13
    assert one.rows("FETCH 5 FROM c") == []
    one.ask("COMMIT")
    assert one.fails("FETCH 1 FROM c")["C"] == "34000"


def test_a_cursor_has_parameters_whose_types_its_query_shows(one: Raw) -> None:
    one.ask("BEGIN")
    one.send(
        parse("DECLARE c CURSOR FOR SELECT n FROM flights WHERE n < $1 AND s <> $2 ORDER BY 1")
    )
    one.send(bind((b"4", b"row 1")), execute(), SYNC)
    assert [kind for kind, _ in one.until_ready()] == ["1", "2", "C", "Z"]
    assert one.rows("FETCH ALL FROM c") == [["0"], ["2"], ["3"]]


def test_a_portal_returns_as_many_rows_as_each_execute_asks_for(one: Raw) -> None:
    one.send(parse("SELECT n FROM flights WHERE n < 5 ORDER BY n"), bind())
    one.send(execute(2), execute(2), execute(2), SYNC)
    kinds = [kind for kind, _ in one.until_ready()]
    assert kinds == ["1", "2", "D", "D", "s", "D", "D", "s", "D", "C", "Z"]


def test_a_portal_with_a_large_limit_is_sent_piece_by_piece(one: Raw) -> None:
    one.send(parse("SELECT i FROM range(50_000) t(i)"), bind(), execute(30_000), execute(30_000))
    one.send(SYNC)
    kinds = [kind for kind, _ in one.until_ready()]
    assert kinds == ["1", "2", *["D"] * 30_000, "s", *["D"] * 20_000, "C", "Z"]


def test_a_statement_is_described_before_it_has_values(one: Raw) -> None:
    one.send(parse("SELECT n, s, $2::int AS x FROM flights WHERE n = $1"), describe(b"S"), SYNC)
    found = dict(one.until_ready())
    assert struct.unpack("!hii", found["t"]) == (2, 20, 23)
    assert all(text(name) in found["T"] for name in "nsx")
    one.send(bind((b"7", b"1")), execute(), SYNC)
    assert [row_of(body) for kind, body in one.until_ready() if kind == "D"] == [
        ["7", "row 7", "1"]
    ]


def test_parameters_of_a_change_have_the_types_of_their_columns(one: Raw) -> None:
    one.send(parse("INSERT INTO people (id,ok,raw) VALUES ($1,$2,$3)"), describe(b"S"), SYNC)
    found = dict(one.until_ready())
    assert struct.unpack("!hiii", found["t"]) == (3, 20, 16, 17)
    one.send(bind((b"7", b"t", b"\\x6162")), execute(), SYNC)
    assert tags(one.until_ready()) == ["INSERT 0 1"]
    assert one.rows("SELECT ok, raw FROM people WHERE id = 7") == [["t", "\\x6162"]]


def test_a_value_that_does_not_fit_its_type_is_one_sentence(one: Raw) -> None:
    one.send(parse("SELECT $1::int"), bind((b"seven",)), execute(), SYNC)
    (error,) = [error_of(body) for kind, body in one.until_ready() if kind == "E"]
    assert error["C"] == "22P02"
    assert error["M"].startswith("parameter $1 is not a value of integer")


def test_an_error_has_its_place_in_the_text(one: Raw) -> None:
    found = one.fails("SELECT n,\n  nope FROM flights")
    assert (found["C"], found["P"], found["S"]) == ("42703", "13", "ERROR")


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELEC 1", "0A000"),
        ("SELECT 1 +", "42601"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT no_such_function(1)", "42883"),
        ("SELECT 'x'::int", "22P02"),
        ("CREATE VIEW x AS SELECT 1", "42601"),
        ("SET timezone = 'Europe/Berlin'", "22023"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SHOW nothing", "42704"),
        ("DEALLOCATE nothing", "26000"),
        ("COPY flights TO '/tmp/x'", "42501"),
        ("COPY flights FROM PROGRAM 'x'", "42501"),
        ("LISTEN x", "0A000"),
        ("INSERT INTO people (id) VALUES (1), (1)", "23505"),
        ("INSERT INTO people (name) VALUES ('x')", "23502"),
        ("SELECT n FROM flights FOR UPDATE", "0A000"),
        ("SELECT n FROM flights FOR NO KEY UPDATE", "0A000"),
    ],
)
def test_each_failure_has_its_state_and_one_line(one: Raw, sql: str, state: str) -> None:
    found = one.fails(sql)
    assert found["C"] == state, found
    assert "\n" not in found["M"]
    assert one.rows("SELECT 1") == [["1"]]


def test_what_clients_set_is_kept_shown_and_reset(one: Raw) -> None:
    found = one.ask("SET application_name TO 'my app'")
    assert ("S", text("application_name") + text("my app")) in found
    assert one.rows("SHOW application_name") == [["my app"]]
    one.ask("SET SESSION extra_float_digits = 3; SET search_path TO public, other")
    assert one.rows("SHOW search_path") == [["public, other"]]
    one.ask("DISCARD ALL")
    assert one.rows("SHOW extra_float_digits") == [["1"]]
    assert one.rows("SELECT set_config('application_name', 'b', false)") == [["b"]]
    assert one.rows("SHOW application_name") == [["b"]]
    for sql in ("SET TIME ZONE 'UTC'", "SET NAMES 'utf8'", "UNLISTEN *", "CLOSE ALL", "RESET ALL"):
        assert state(one.ask(sql)) == "I"
    assert ["TimeZone", "UTC", ""] in one.rows("SHOW ALL")


def test_options_of_the_first_message_are_settings(own: Doors) -> None:
    with own.client(options="-c statement_timeout=5s --extra-float-digits=2") as made:
        assert made.rows("SHOW statement_timeout") == [["5s"]]
        assert made.rows("SHOW extra_float_digits") == [["2"]]


def test_an_empty_text_and_comments_are_an_empty_query(one: Raw) -> None:
    for sql in ("", ";", "-- nothing"):
        assert [kind for kind, _ in one.ask(sql)] == ["I", "Z"]


def copied(one: Raw, sql: str, *parts: bytes, end: bytes | None = None) -> list[tuple[str, bytes]]:
    one.send(query(sql))
    kind, body = one.next()
    if kind == "E":
        return [(kind, body), *one.until_ready()]
    assert kind == "G"
    one.send(*(frame(b"d", part) for part in parts), end or frame(b"c"))
    return one.until_ready()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("CURSOR WITH HOLD", "0A000"),
        ("NO SCROLL CURSOR WITH HOLD", "0A000"),
        ("BINARY CURSOR", "0A000"),
        ("people CURSOR", "42601"),
        ("INSENSITIVE NO SCROLL CURSOR WITHOUT HOLD", ""),
        ("scroll cursor", ""),
    ],
)
def test_a_cursor_has_what_its_declaration_says(one: Raw, said: str, code: str) -> None:
    one.ask("BEGIN")
    sql = f"DECLARE c {said} FOR SELECT 1"
    if code:
        assert one.fails(sql)["C"] == code
    else:
        assert tags(one.ask(sql)) == ["DECLARE CURSOR"]
        assert one.rows("FETCH ALL FROM c") == [["1"]]


@pytest.mark.parametrize("ends", ["COMMIT", "END WORK", "ROLLBACK", "ABORT TRANSACTION"])
def test_another_transaction_follows_a_chain(own: Doors, one: Raw, ends: str) -> None:
    commits = ends.split()[0] in ("COMMIT", "END")
    one.ask("BEGIN")
    one.ask("INSERT INTO people VALUES (4, 'first', true, NULL)")
    one.ask("DECLARE c CURSOR FOR SELECT 1")
    found = one.ask(f"{ends} AND CHAIN")
    assert (tags(found), state(found)) == (["COMMIT" if commits else "ROLLBACK"], "T")
    assert one.fails("FETCH 1 FROM c")["C"] == "34000"
    assert state(one.ask("ROLLBACK AND CHAIN")) == "T"
    one.ask("INSERT INTO people VALUES (5, 'second', true, NULL)")
    with own.client() as other:
        assert other.rows("SELECT id FROM people") == ([["4"]] if commits else [])
    assert state(one.ask("ROLLBACK AND NO CHAIN")) == "I"
    assert one.rows("SELECT id FROM people") == ([["4"]] if commits else [])


def test_a_chain_keeps_read_only_and_begins_after_a_failure(one: Raw) -> None:
    one.ask("BEGIN READ ONLY")
    assert one.fails("SELECT nothing")["C"]
    assert tags(one.ask("COMMIT AND CHAIN")) == ["ROLLBACK"]
    assert one.rows("SELECT 1") == [["1"]]
    assert one.fails("INSERT INTO people VALUES (4, 'x', true, NULL)")["C"] == "25006"
    assert state(one.ask("ROLLBACK")) == "I"
    assert one.fails("COMMIT AND CHAIN")["C"] == "25P01"
    assert tags(one.ask("INSERT INTO people VALUES (4, 'x', true, NULL)")) == ["INSERT 0 1"]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("COMMIT PREPARED 'x'", "0A000"),
        ("ROLLBACK PREPARED 'x'", "0A000"),
        ("PREPARE TRANSACTION 'x'", "0A000"),
        ("COMMIT people", "42601"),
        ("ROLLBACK AND", "42601"),
        ("ABORT CHAIN", "42601"),
        ("START people", "42601"),
        ("BEGIN READ", "42601"),
    ],
)
def test_words_that_a_bound_does_not_have_change_nothing(one: Raw, sql: str, code: str) -> None:
    found = one.fails(sql)
    assert (found["C"], state(one.ask(""))) == (code, "I")
    one.ask("BEGIN")
    one.ask("INSERT INTO people VALUES (4, 'x', true, NULL)")
    assert one.fails(sql)["C"] == code
    assert state(one.ask("")) == "E"
    one.ask("ROLLBACK")
    assert one.rows("SELECT id FROM people") == []


@pytest.mark.parametrize(
    "sql",
    [
        "START TRANSACTION READ WRITE, ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE",
        "begin work isolation level repeatable read",
        "BEGIN TRANSACTION",
    ],
)
def test_a_transaction_begins_with_its_modes(one: Raw, sql: str) -> None:
    assert state(one.ask(sql)) == "T"
    assert state(one.ask("END TRANSACTION")) == "I"


def test_copy_to_is_the_table_in_text_and_csv(one: Raw) -> None:
    one.ask(
        "INSERT INTO people VALUES (1, 'tab\tand \"quote\"', true, 'ab'::BLOB), (2, '', NULL, NULL)"
    )
    sql = "COPY (SELECT * FROM people ORDER BY id) TO STDOUT"
    assert lines(one, sql) == ['1\ttab\\tand "quote"\tt\t\\\\x6162\n', "2\t\t\\N\t\\N\n"]
    assert lines(one, f"{sql} (FORMAT csv, HEADER)") == [
        "id,name,ok,raw\n",
        '1,"tab\tand ""quote""",t,\\x6162\n',
        '2,"",,\n',
    ]
    assert lines(one, "COPY people (id) TO STDOUT WITH CSV DELIMITER ';'") == ["1\n", "2\n"]


def lines(one: Raw, sql: str) -> list[str]:
    found = one.ask(sql)
    assert found[0][0] == "H", found
    return [body.decode() for kind, body in found if kind == "d"]


def test_copy_from_is_one_version_of_all_lines_or_nothing(own: Doors, one: Raw) -> None:
    handle = own.served.gateway.tables.table("people")
    before = handle.poll()
    sql = "COPY people FROM STDIN"
    good = copied(one, sql, b"1\ta\\tb\tt\t\\\\x6162\n2\t\\N\t", b"f\t\\N\n", b"3\t\tt\t\\N\n\\.\n")
    assert tags(good) == ["COPY 3"]
    assert handle.poll() == before + 1
    assert one.rows("SELECT * FROM people ORDER BY id") == [
        ["1", "a\tb", "t", "\\x6162"],
        ["2", None, "f", None],
        ["3", "", "t", None],
    ]
    for wrong in (b"4\ta\tt\t\\N\nfour\ta\tt\t\\N\n", b"4\ta\n", b"1\ttwice\tt\t\\N\n"):
        found = copied(one, sql, wrong)
        assert found[0][0] == "E", wrong
    given_up = copied(one, sql, b"4\ta\tt\t\\N\n", end=frame(b"f", text("tired")))
    assert error_of(given_up[0][1])["C"] == "57014"
    assert handle.poll() == before + 1
    assert one.rows("SELECT count(*) FROM people") == [["3"]]


def test_copy_from_csv_takes_quotes_headers_and_columns(one: Raw) -> None:
    data = b'name,id\n"x ""y"", \nz",10\n,11\n"",12\n'
    found = copied(one, "COPY people (name, id) FROM STDIN (FORMAT csv, HEADER)", *cut(data))
    assert tags(found) == ["COPY 3"], found
    assert one.rows("SELECT id, name FROM people ORDER BY id") == [
        ["10", 'x "y", \nz'],
        ["11", None],
        ["12", ""],
    ]


def cut(data: bytes) -> list[bytes]:
    return [data[at : at + 3] for at in range(0, len(data), 3)]


def test_copy_from_has_the_columns_of_now(tmp_path: Path) -> None:
    """Also where another gateway, or a program, has altered the table just before."""
    asked = settings_of(tmp_path)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = bs.create(f"{tmp_path}/lake/moved?durable=false", schema=schema, row_ids=True)
    slow = replace(asked, tables=replace(asked.tables, poll_s=60))
    with both(slow) as doors, doors.client() as one:
        assert one.rows("SELECT * FROM moved") == []
        table.alter(rename={"a": "x"}, add=[pa.field("a", pa.int64())])
        one.send(query("COPY moved FROM STDIN"))
        one.send(frame(b"d", b"1\t2\t3\n"), frame(b"c"))
        assert tags(one.until_ready()) == ["COPY 1"]
        assert one.rows("SELECT x, b, a FROM moved") == [["1", "2", "3"]]


def test_copy_from_is_not_a_part_of_a_transaction(one: Raw) -> None:
    one.ask("BEGIN")
    assert error_of(copied(one, "COPY people FROM STDIN")[0][1])["C"] == "25001"


def test_a_client_that_leaves_in_the_middle_of_a_copy_writes_nothing(
    own: Doors, tmp_path: Path
) -> None:
    before = own.served.gateway.tables.table("people").poll()
    one = own.client()
    one.send(query("COPY people FROM STDIN"))
    assert one.next()[0] == "G"
    one.send(frame(b"d", b"1\ta\tt\t\\N\n"))
    one.close()
    with own.client() as other:
        assert other.rows("SELECT count(*) FROM people WHERE id = 1") == [["0"]]
    assert own.served.gateway.tables.table("people").poll() == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM public.flihgts",
        "SELECT 1 FROM flights JOIN lake.public.flihgts USING (n)",
        'SELECT 1 FROM flights, (SELECT * FROM "public"."flihgts") AS b',
        "INSERT INTO public.flihgts VALUES (1)",
        "UPDATE public.flihgts SET n = 1",
        "DELETE FROM public.flihgts",
    ],
)
def test_an_unknown_table_of_public_is_reported_by_its_name(one: Raw, sql: str) -> None:
    found = one.fails(sql)
    assert (found["C"], found["M"]) == (
        "42P01",
        "there is no table flihgts: did you mean flights?",
    )


def test_an_alias_may_be_public(one: Raw) -> None:
    assert one.rows("SELECT public.n FROM flights AS public WHERE public.n = 3") == [["3"]]


def test_a_local_setting_ends_with_its_transaction(one: Raw) -> None:
    show = "SHOW statement_timeout"
    one.ask("BEGIN; SET LOCAL statement_timeout = '7s'")
    assert one.rows(show) == [["7s"]]
    one.ask("COMMIT")
    assert one.rows(show) == [["0"]]
    one.ask("SET LOCAL statement_timeout = '7s'")
    assert one.rows(show) == [["0"]]
    one.ask("BEGIN; SELECT set_config('statement_timeout', '7s', true); COMMIT")
    assert one.rows(show) == [["0"]]
    one.ask("BEGIN; SET LOCAL statement_timeout = '7s'; SET statement_timeout = '8s'; COMMIT")
    assert one.rows(show) == [["8s"]]
    one.ask("BEGIN; SET statement_timeout = '9s'; SET LOCAL statement_timeout = '7s'")
    assert one.rows(show) == [["7s"]]
    one.ask("COMMIT")
    assert one.rows(show) == [["9s"]]
    one.ask("BEGIN; RESET statement_timeout; SET LOCAL statement_timeout = '7s'; COMMIT")
    assert one.rows(show) == [["0"]]
    one.ask("SET my.own = 'a'; BEGIN; RESET my.own; RESET ALL; COMMIT")
    assert one.fails("SHOW my.own")["C"] == "42704"


def test_a_setting_of_a_transaction_that_is_rolled_back_does_not_hold(one: Raw) -> None:
    one.ask("SET application_name = 'a'; BEGIN; SET application_name = 'b'; SET my.own = 'c'")
    found = one.ask("ROLLBACK")
    assert [body for kind, body in found if kind == "S"] == [b"application_name\0a\0"]
    assert one.fails("SHOW my.own")["C"] == "42704"
    one.ask("BEGIN; SET application_name = 'b'; SELECT missing FROM flights")
    one.ask("COMMIT")  # of one that failed
    assert one.rows("SHOW application_name") == [["a"]]
    one.ask("BEGIN; SET my.own = 'c'; COMMIT")
    assert one.rows("SHOW my.own") == [["c"]]


def test_a_setting_is_shown_by_its_own_name_and_the_answer_counts_nothing(one: Raw) -> None:
    for sql, name in (
        ("SHOW datestyle", b"DateStyle\0"),
        ("SHOW TIME ZONE", b"TimeZone\0"),
        ("SHOW transaction_isolation", b"transaction_isolation\0"),
    ):
        found = one.ask(sql)
        assert [body for kind, body in found if kind == "C"] == [b"SHOW\0"], sql
        (columns,) = [body for kind, body in found if kind == "T"]
        assert columns[2:].startswith(name), sql
    found = one.ask("EXPLAIN SELECT n FROM flights")
    assert [body for kind, body in found if kind == "C"] == [b"EXPLAIN\0"]
