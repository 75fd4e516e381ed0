"""SQL that changes rows, over HTTP: once by key, with the tables and the scopes of the token, and
nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest

import blockstore as bs
from tests.reader.http.gateways import (
    DDL,
    FEW,
    FEW_DDL,
    OTHER,
    READ,
    Served,
    make_lake,
    serving,
    settings,
)

ITEMS = pa.schema([("sku", pa.string()), ("n", pa.int64())])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("statements")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def items(served: Served, request: pytest.FixtureRequest) -> str:
    """A table with a key and two rows; of this test alone."""
    name = f"items_{abs(hash(request.node.name))}"
    table = bs.create(url(served, name), schema=ITEMS, key="sku")
    table.upsert(pa.table({"sku": ["a", "b"], "n": [1, 2]}, ITEMS))
    served.gateway.tables.poll_now()
    return name


def url(served: Served, name: str) -> str:
    return f"{served.gateway.settings.tables.urls[0].partition('?')[0]}/{name}?durable=false"


def send(
    served: Served, sql: str, *, key: str = "", token: str | None = None, **more: object
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    if token is None:
        return served.http.post("/v1/statements", json={"sql": sql, **more}, headers=headers)
    with served.as_(token) as client:
        return client.post("/v1/statements", json={"sql": sql, **more}, headers=headers)


def rows(served: Served, name: str) -> list[tuple[str, int]]:
    found = bs.open(url(served, name)).snapshot().scan().to_table().to_pylist()
    return sorted((row["sku"], row["n"]) for row in found)


def test_statements_change_rows_and_report_counts_and_the_version(
    served: Served, items: str
) -> None:
    answer = send(
        served, f"UPDATE {items} SET n = n + $more WHERE sku = 'a'", parameters={"more": 5}
    )
    assert answer.status_code == 200, answer.text
    written = answer.json()["written"]
    assert (written["updated"], written["version"]) == (1, 3)
    send(served, f"INSERT INTO {items} VALUES ('c', 3)")
    send(
        served,
        f"MERGE INTO {items} AS t USING (VALUES ('c', 30), ('d', 4)) AS s(sku, n) ON t.sku = s.sku "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT",
    )
    send(served, f"DELETE FROM {items} WHERE sku = 'b'")
    assert rows(served, items) == [("a", 6), ("c", 30), ("d", 4)]
    assert served.rows(f"SELECT count(*) AS n FROM {items}") == [{"n": 3}]


def test_a_statement_with_a_key_happens_once(served: Served, items: str) -> None:
    sql = f"UPDATE {items} SET n = n + 1"
    first = send(served, sql, key="monday").json()
    again = send(served, sql, key="monday").json()
    assert first["id"] == again["id"]
    assert first["written"] == again["written"]
    assert rows(served, items) == [("a", 2), ("b", 3)]
    assert send(served, f"DELETE FROM {items}", key="monday").status_code == 409


def test_a_transaction_is_one_version_and_happens_once(served: Served, items: str) -> None:
    sql = (
        f"BEGIN; UPDATE {items} SET n = n + $more; INSERT INTO {items} VALUES ('c', 3);"
        f"DELETE FROM {items} WHERE n = 6; COMMIT"
    )
    first = send(served, sql, key="tuesday", parameters={"more": 5}).json()
    again = send(served, sql, key="tuesday", parameters={"more": 5}).json()
    assert first["written"] == again["written"]
    counts = [first["written"][name] for name in ("inserted", "updated", "deleted", "version")]
    assert counts == [1, 2, 1, 3]
    assert rows(served, items) == [("b", 7), ("c", 3)]
    few = send(served, f"BEGIN; DELETE FROM {items}; COMMIT", token=FEW)
    assert few.status_code in (403, 404)
    assert send(served, "BEGIN; DELETE FROM nowhere_at_all; COMMIT").status_code == 404


def test_relations_of_a_table_are_queried_by_those_who_may_see_it(
    served: Served, items: str
) -> None:
    sql = f"SELECT version, operation FROM {items}.history ORDER BY version"
    assert served.rows(sql)[-1] == {"version": 2, "operation": "upsert"}
    assert served.rows(f"SELECT _change FROM {items}.changes(after => 1) WHERE n = 1") == [
        {"_change": "insert"}
    ]
    with served.as_(FEW) as client:
        refused = client.post("/v1/query", json={"sql": f"SELECT * FROM {items}.history"})
    assert refused.status_code == 404


def test_scopes_and_tables_are_those_of_the_token(served: Served, items: str) -> None:
    assert send(served, f"DELETE FROM {items}", token=READ).status_code == 403
    assert send(served, f"DELETE FROM {items}", token=FEW).status_code in (403, 404)
    assert rows(served, items) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "CREATE TABLE made AS SELECT 1 AS a, 2 AS a",
        "CREATE TABLE made AS SELECT NULL AS a",
        "CREATE TABLE made AS SELECT * FROM read_text('/etc/passwd')",
        "CREATE OR REPLACE TABLE {t} AS SELECT * FROM {t}",
        "CREATE OR REPLACE TABLE {t} (a INTEGER UNIQUE)",
        "CREATE OR REPLACE TABLE {t} AS SELECT error(i::VARCHAR) AS e FROM range(10) r(i)",
        "CREATE OR REPLACE TABLE {t} WITH (time_column = time) AS SELECT NULL::TIMESTAMP AS time",
        "CREATE TABLE made (a INTEGER UNIQUE)",
        "CREATE TABLE made (a INTEGER); DROP TABLE made",
        "CREATE TABLE gc (a INTEGER)",
        "CREATE VIEW made AS SELECT 1",
        "ALTER TABLE {t} DROP COLUMN sku",
        "ALTER TABLE {t} ALTER n TYPE VARCHAR",
        "ALTER TABLE {t} ADD a VARCHAR DEFAULT getenv('HOME')",
        "BEGIN; DROP TABLE {t}; COMMIT",
        "DROP VIEW {t}",
        "CALL compact('{t}', 1)",
        "CALL compact(getenv('HOME'))",
        "CALL pragma_version()",
        "CALL revert('{t}')",
        "CALL tag('{t}', '_restore_x')",
        "CALL tag('{t}', 'a'); CALL tag('{t}', 'b')",
        "BEGIN; CALL tag('{t}', 'a'); COMMIT",
        "EXPLAIN CALL tag('{t}', 'a')",
        "COPY {t} TO '/tmp/out.csv'",
        "ATTACH '/tmp/x.db'",
        "PRAGMA database_list",
        "SET threads = 1",
        "INSTALL httpfs",
        "DELETE FROM {t}; DELETE FROM {t}",
        "DELETE FROM {t}; SET threads = 1",
        "EXPLAIN DELETE FROM {t}",
        "BEGIN; DELETE FROM {t}",
        "BEGIN; DELETE FROM {t}; ROLLBACK",
        "BEGIN; DELETE FROM {t}; DELETE FROM other; COMMIT",
        "BEGIN; SELECT * FROM {t}; COMMIT",
        "BEGIN; DELETE FROM {t}; SET threads = 1; COMMIT",
        "BEGIN; DELETE FROM {t} RETURNING *; COMMIT",
        "BEGIN; DELETE FROM {t}; UPDATE {t} SET nope = 1; COMMIT",
        "BEGIN; INSERT INTO {t} SELECT content, 1 FROM read_text('/etc/passwd'); COMMIT",
        "DELETE FROM {t} RETURNING *",
        "UPDATE {t} SET n = (SELECT count(*) FROM read_csv('/etc/passwd'))",
        "UPDATE {t} SET sku = getenv('HOME')",
        "INSERT INTO {t} SELECT content, 1 FROM read_text('/etc/passwd')",
        "UPDATE {t} SET nope = 1",
        "UPDATE {t} SET n = 'abc'",
        "INSERT INTO {t} VALUES (NULL, 1)",
    ],
)
def test_everything_else_is_refused_and_changes_nothing(
    served: Served, items: str, sql: str
) -> None:
    answer = send(served, sql.format(t=items))
    assert answer.status_code == 400, answer.text
    assert bs.open(url(served, items)).log.state.version == 2


def test_an_error_names_the_line_and_a_conflict_its_rows(served: Served, items: str) -> None:
    wrong = send(served, f"UPDATE {items}\nSET n = nope").json()
    assert "at line 2, column 9" in wrong["message"]
    twice = send(served, f"INSERT INTO {items} VALUES ('a', 9)")
    assert twice.status_code == 409
    assert twice.json()["detail"]["rows"] == [{"row": "a", "expected": None, "found": None}]
    assert send(served, "DELETE FROM nowhere_at_all").status_code == 404


def test_inserts_into_a_table_without_identity_happen_once(served: Served) -> None:
    bs.create(url(served, "plain"), schema=ITEMS)
    served.gateway.tables.poll_now()
    assert send(served, "INSERT INTO plain VALUES ('a', 1)", key="one").status_code == 200
    assert send(served, "INSERT INTO plain VALUES ('a', 1)", key="one").status_code == 200
    assert rows(served, "plain") == [("a", 1)]
    both = "BEGIN; INSERT INTO plain VALUES ('b', 1); INSERT INTO plain SELECT * FROM plain; COMMIT"
    for _ in range(2):
        assert send(served, both, key="both").json()["written"]["inserted"] in (3, None)
    assert rows(served, "plain") == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]


PLAIN = {
    "update": ("UPDATE {t} SET n = n + 1 WHERE sku = 'a'", [("a", 2), ("b", 1), ("c", 1)]),
    "delete": ("DELETE FROM {t} WHERE sku < 'c'", [("c", 1)]),
    "delete_all": ("DELETE FROM {t}", []),
    "truncate": ("TRUNCATE {t}", []),
    "nothing": ("UPDATE {t} SET n = 9 WHERE sku = 'z'", [("a", 1), ("b", 1), ("c", 1)]),
    "merge": (
        """MERGE INTO {t} USING (VALUES ('a', 5), ('d', 6)) s(sku, n) ON {t}.sku = s.sku
        WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.sku, s.n)""",
        [("a", 5), ("b", 1), ("c", 1), ("d", 6)],
    ),
    "transaction": (
        "BEGIN; UPDATE {t} SET n = n * 3 WHERE sku = 'b'; DELETE FROM {t} WHERE n = 1; COMMIT",
        [("b", 3)],
    ),
    "all_in_two": ("BEGIN; DELETE FROM {t} WHERE sku = 'a'; DELETE FROM {t}; COMMIT", []),
}
"""Statements on rows without identity, and what they leave."""


@pytest.mark.parametrize("what", PLAIN)
def test_rows_without_identity_change_once(served: Served, what: str) -> None:
    sql, left = PLAIN[what]
    name = f"plain_{what}"
    sql = sql.format(t=name)
    bs.create(url(served, name), schema=ITEMS)
    served.gateway.tables.poll_now()
    send(served, f"INSERT INTO {name} VALUES ('a', 1), ('b', 1)")
    send(served, f"INSERT INTO {name} VALUES ('c', 1)")
    first = send(served, sql, key=what)
    assert first.status_code == 200, first.text
    assert (first.json()["progress"]["rows"] > 0) == (what != "nothing")
    assert rows(served, name) == left
    assert send(served, sql, key=what).json() == first.json()
    assert bs.open(url(served, name)).log.state.version == 4
    assert first.json()["written"]["version"] == 4
    assert rows(served, name) == left


def test_tables_are_created_altered_and_dropped_once(served: Served) -> None:
    sql = (
        "CREATE TABLE sizes (id BIGINT PRIMARY KEY, n INTEGER NOT NULL DEFAULT 1 CHECK (n > 0) "
        "COMMENT 'how large') WITH (row_history = '30d')"
    )
    first = send(served, sql, key="make", token=DDL)
    assert first.status_code == 200, first.text
    assert first.json()["written"] == {"version": 1}
    assert send(served, sql, key="make", token=DDL).json() == first.json()
    assert send(served, sql, token=DDL).status_code == 409
    assert send(served, "INSERT INTO sizes (id) VALUES (1)").json()["written"]["version"] == 2
    assert served.rows("SELECT * FROM sizes") == [{"id": 1, "n": 1}]

    wider = "ALTER TABLE sizes ADD COLUMN name VARCHAR"
    second = send(served, wider, key="wider", token=DDL, message="names")
    assert second.json()["written"] == {"version": 3}
    assert send(served, wider, key="wider", token=DDL, message="names").json() == second.json()
    assert send(served, wider, token=DDL).status_code == 400
    assert send(
        served, "ALTER TABLE sizes ADD COLUMN IF NOT EXISTS name VARCHAR", token=DDL
    ).json()["written"] == {"version": None}
    unknown = send(served, "ALTER TABLE sizes ALTER COLUMN nope SET DEFAULT 5", token=DDL)
    assert unknown.status_code == 400
    assert "no such column; the columns are 'id', 'n', 'name'" in unknown.json()["message"]
    comment = send(served, "COMMENT ON COLUMN sizes.name IS 'a name'", token=DDL)
    assert comment.status_code == 200, comment.text
    assert served.rows("SELECT version, message FROM sizes.history WHERE version = 3") == [
        {"version": 3, "message": "names"}
    ]

    gone = send(served, "DROP TABLE sizes", key="gone", token=DDL)
    assert gone.json()["written"] == {"version": 5}
    assert send(served, "DROP TABLE sizes", key="gone", token=DDL).json() == gone.json()
    assert send(served, "DROP TABLE sizes", token=DDL).status_code == 404
    assert served.query("SELECT * FROM sizes").status_code == 404


def test_if_exists_and_if_not_exists_have_nothing_to_do(served: Served, items: str) -> None:
    nothing = {"version": None}
    for sql in (
        f"CREATE TABLE IF NOT EXISTS {items} (a INTEGER)",
        "DROP TABLE IF EXISTS nowhere",
        "ALTER TABLE IF EXISTS nowhere ADD COLUMN a INTEGER",
    ):
        for _ in range(2):
            answer = send(served, sql, key=sql, token=DDL)
            assert (answer.status_code, answer.json()["written"]) == (200, nothing), answer.text
    upper = send(served, f"CREATE TABLE IF NOT EXISTS {items.upper()} (a INTEGER)")
    assert upper.json()["written"] == nothing
    for _ in range(2):
        sql = f"DROP TABLE IF EXISTS {items}"
        assert send(served, sql, key="drop-it", token=DDL).json()["written"] == {"version": 3}
    made = "CREATE TABLE IF NOT EXISTS fresh_one (a INTEGER)"
    for _ in range(2):
        assert send(served, made, key="fresh", token=DDL).json()["written"] == {"version": 1}


def test_who_may_define_tables_and_which(served: Served, items: str) -> None:
    for token in (READ, FEW, OTHER):
        for sql in (
            "CREATE TABLE x (a INTEGER)",
            f"ALTER TABLE {items} ADD a INT",
            f"DROP TABLE {items}",
        ):
            refused = send(served, sql, token=token)
            assert refused.status_code == 403, refused.text
    assert "lacks scope 'ddl'" in send(served, "DROP TABLE flights", token=OTHER).json()["message"]
    changed = send(served, f"DELETE FROM {items}", token=DDL)
    assert (changed.status_code, "lacks scope 'read'" in changed.text) == (403, True)
    assert send(served, f"DROP TABLE {items}", token=FEW_DDL).status_code == 404
    hidden = send(served, f"DROP TABLE IF EXISTS {items}", token=FEW_DDL)
    assert hidden.json()["written"] == {"version": None}
    assert send(served, "CREATE TABLE others (a INTEGER)", token=FEW_DDL).status_code == 403
    assert send(served, "CREATE TABLE mine (a INTEGER)", token=FEW_DDL).status_code == 200
    spies = "ALTER TABLE mine ALTER a SET DEFAULT (SELECT count(*) FROM salaries)"
    spied = send(served, spies, token=FEW_DDL)
    assert spied.status_code == 404, spied.text
    assert served.http.get("/v1/tables/mine").json()["version"] == 1
    assert rows(served, items) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("near", ["salarie", "zzzz", "salaries"])
def test_a_query_of_a_new_table_names_no_hidden_one(served: Served, near: str) -> None:
    for made in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        found = send(served, f"{made} mine AS SELECT * FROM {near}", token=FEW_DDL)
        assert found.status_code == 404, found.text
        assert "did you mean" not in found.text
        assert set(found.json()["nearest"]) <= {"flights", "mine"}


def test_an_error_of_a_definition_names_the_line(served: Served, items: str) -> None:
    wrong = send(served, f"ALTER TABLE {items}\nRENAME TO x", token=DDL)
    assert wrong.status_code == 400
    assert "at line 2" in wrong.json()["message"]
    given = send(served, "CREATE TABLE y (a INTEGER)", parameters={"a": 1}, token=DDL)
    assert (given.status_code, "takes no parameters" in given.text) == (400, True)


def test_parameters_are_what_their_json_says(served: Served) -> None:
    """As those of a query are: a large integer keeps its digits, and a number may be none."""
    schema = pa.schema([("k", pa.int64()), ("d", pa.decimal128(38, 0)), ("x", pa.float64())])
    table = bs.create(url(served, "exact"), schema=schema, key="k")
    served.gateway.tables.poll_now()
    digits = 123456789012345678901234567890
    sql = "INSERT INTO exact VALUES ($1, $2, $3)"
    body = json.dumps({"sql": sql, "parameters": [1, digits, float("nan")]})
    for content in (body.encode(), b"\xef\xbb\xbf" + body.replace("[1,", "[2,").encode()):
        sent = served.http.post(
            "/v1/statements", content=content, headers={"Content-Type": "application/json"}
        )
        assert sent.status_code == 200, sent.text
    found = table.poll() and table.snapshot().scan().to_table().to_pylist()
    assert [int(one["d"]) for one in found] == [digits] * 2
    assert all(math.isnan(one["x"]) for one in found)


def test_half_of_a_character_is_refused_before_it_is_a_job(served: Served, items: str) -> None:
    body = f'{{"sql": "INSERT INTO {items} VALUES ($1, 1)", "parameters": ["\\ud800"]}}'
    sent = served.http.post(
        "/v1/statements", content=body.encode(), headers={"Content-Type": "application/json"}
    )
    assert (sent.status_code, "half of a surrogate pair" in sent.json()["message"]) == (400, True)
