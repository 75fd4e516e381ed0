"""Changes over Flight SQL: statements and ingests, each one version or nothing, and once by key."""

from __future__ import annotations

import struct
import threading

import pyarrow as pa
import pytest
from pyarrow import flight

import blockstore as bs
from blockstore.reader.doors import loading
from blockstore.reader.flight.messages import message, packed
from tests.reader.flight.doors import APPEND, CREATE, FAIL, REPLACE, Opened, count_of

ROWS = pa.table({"k": ["a", "b"], "n": [1, 2]})
MORE = pa.table({"k": ["b", "c"], "n": [20, 3]})


class Table:
    """A table of one test, in the lake of the gateway."""

    def __init__(self, door: Opened, name: str) -> None:
        self._door = door
        self.name = name
        self.url = f"{door.http.gateway.settings.tables.urls[0].partition('?')[0]}/{name}"

    def make(self, **options: object) -> Table:
        schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
        bs.create(f"{self.url}?durable=false", schema=schema, **options)
        self._door.http.gateway.tables.poll_now()
        return self

    @property
    def version(self) -> int:
        return bs.open(self.url).log.poll().version

    @property
    def rows(self) -> list[tuple[str, int]]:
        found = bs.open(self.url).snapshot().scan().to_table().to_pylist()
        return sorted((row["k"], row["n"]) for row in found)

    @property
    def there(self) -> bool:
        try:
            bs.open(self.url)
        except bs.NotFound:
            return False
        return True


@pytest.fixture
def table(door: Opened, request: pytest.FixtureRequest) -> Table:
    return Table(door, f"t_{abs(hash(request.node.name))}")


def test_a_statement_changes_rows_and_returns_their_count(door: Opened, table: Table) -> None:
    table.make(key="k")
    assert door.client.update(f"INSERT INTO {table.name} VALUES ('a', 1), ('b', 2)") == 2
    assert door.client.update(f"UPDATE {table.name} SET n = n + 1 WHERE k = 'a'") == 1
    assert door.client.query(f"SELECT n FROM {table.name} ORDER BY k").to_pydict() == {"n": [2, 2]}
    both = f"BEGIN; DELETE FROM {table.name}; INSERT INTO {table.name} VALUES ('z', 9); COMMIT"
    before = table.version
    door.client.update(both)
    assert (table.rows, table.version) == ([("z", 9)], before + 1)


def test_a_prepared_statement_changes_rows_by_its_parameters(door: Opened, table: Table) -> None:
    table.make(key="k")
    made = door.client.prepare(f"INSERT INTO {table.name} VALUES (?, ?)")
    assert len(pa.ipc.read_schema(pa.py_buffer(made.dataset_schema))) == 0
    for key, number in (("a", 1), ("b", None)):
        batch = pa.record_batch({"0": [key], "1": pa.array([number], pa.int64())})
        answer = door.client.put(
            "CommandPreparedStatementUpdate",
            batch.schema,
            [batch],
            prepared_statement_handle=made.prepared_statement_handle,
        )
        assert count_of(answer) == 1
    assert door.client.query(f"SELECT n FROM {table.name} ORDER BY k").to_pydict() == {
        "n": [1, None]
    }


def test_a_statement_that_is_sent_as_a_query_fails_or_is_done_before_its_ticket_is_taken(
    door: Opened, table: Table
) -> None:
    table.make(key="k")
    sql = f"INSERT INTO {table.name} VALUES ('a', 1)"
    info = door.client.info("CommandStatementQuery", query=sql)
    assert table.rows == [("a", 1)]
    for _ in range(2):
        taken = door.client.flight.do_get(info.endpoints[0].ticket, door.client.options())
        assert taken.read_all().to_pydict() == {"Count": [1]}
    with pytest.raises(flight.FlightServerError, match="exist already"):
        door.client.info("CommandStatementQuery", query=sql)
    described = door.client.flight.get_schema(
        flight.FlightDescriptor.for_command(packed("CommandStatementQuery", query=sql)),
        door.client.options(),
    )
    assert described.schema.names == ["Count"]
    assert table.version == 2


def test_a_change_with_a_key_happens_once(door: Opened, table: Table) -> None:
    table.make()
    sql = f"INSERT INTO {table.name} VALUES ('a', 1)"
    for _ in range(3):
        assert door.client.update(sql, idempotency_key=f"{table.name}/1") == 1
    for _ in range(3):
        headers = {"idempotency-key": f"{table.name}/2"}
        assert door.client.ingest(table.name, ROWS, headers=headers) == 2
    assert table.rows == [("a", 1), ("a", 1), ("b", 2)]
    with pytest.raises(flight.FlightServerError, match="used for another request"):
        door.client.ingest(table.name, MORE, headers=headers)
    assert table.version == 3


@pytest.mark.parametrize("options", [{}, {"row_ids": True}, {"key": "k"}], ids=str)
def test_an_ingest_appends_and_replaces_each_as_one_version(
    door: Opened, table: Table, options: dict[str, object]
) -> None:
    table.make(**options)
    assert door.client.ingest(table.name, ROWS) == 2
    assert (table.rows, table.version) == ([("a", 1), ("b", 2)], 2)
    assert door.client.ingest(table.name, MORE, there=REPLACE) == 2
    assert (table.rows, table.version) == ([("b", 20), ("c", 3)], 3)
    count = f"SELECT count(*) AS c FROM {table.name}"
    assert door.client.query(count).to_pydict() == {"c": [2]}
    assert door.client.query(count, blockstore_version="2").to_pydict() == {"c": [2]}


def test_an_ingest_into_a_table_with_a_key_inserts_or_upserts(door: Opened, table: Table) -> None:
    table.make(key="k")
    door.client.ingest(table.name, ROWS)
    with pytest.raises(flight.FlightServerError, match="exist already"):
        door.client.ingest(table.name, MORE)
    assert (table.rows, table.version) == ([("a", 1), ("b", 2)], 2)
    headers = {"blockstore-ingest": "upsert"}
    assert door.client.ingest(table.name, MORE, headers=headers) == 2
    assert (table.rows, table.version) == ([("a", 1), ("b", 20), ("c", 3)], 3)
    option = message("OptionsEntry", key="blockstore-ingest", value="upsert")
    door.client.ingest(table.name, ROWS, options=[option])
    assert table.rows == [("a", 1), ("b", 2), ("c", 3)]


def test_an_ingest_creates_a_table(door: Opened, table: Table) -> None:
    odd = pa.table(
        {
            "k": pa.array(["a", "b", "a"]).dictionary_encode(),
            "n": pa.array([1, None, 3], pa.int64()),
            "more": pa.array(["x", "y", "z"], pa.large_string()),
        }
    )
    assert door.client.ingest(table.name, odd, missing=CREATE, there=FAIL) == 3
    found = door.client.query(f"SELECT * FROM {table.name} ORDER BY more")
    assert found.to_pydict() == {"k": ["a", "b", "a"], "n": [1, None, 3], "more": ["x", "y", "z"]}
    with pytest.raises(flight.FlightServerError, match="there is already a table"):
        door.client.ingest(table.name, odd, missing=CREATE, there=FAIL)
    assert door.client.ingest(table.name, odd, missing=CREATE, there=APPEND) == 3
    assert door.client.query(f"SELECT count(*) AS c FROM {table.name}").to_pydict() == {"c": [6]}


def test_a_creation_with_a_key_happens_once(door: Opened, table: Table) -> None:
    headers = {"idempotency-key": table.name}
    for _ in range(2):
        made = door.client.ingest(table.name, ROWS, missing=CREATE, there=FAIL, headers=headers)
        assert made == 2
    assert table.rows == [("a", 1), ("b", 2)]


def test_a_creation_whose_gateway_died_before_its_rows_goes_on_by_its_key(
    door: Opened, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"idempotency-key": table.name}

    def ingest() -> int:
        return door.client.ingest(table.name, ROWS, missing=CREATE, there=FAIL, headers=headers)

    def dies(*_: object) -> None:
        raise bs.Unavailable("the gateway is gone")

    with monkeypatch.context() as dead:
        dead.setattr("blockstore.reader.doors.loading._request", dies)
        dead.setattr("blockstore.reader.doors.loading._drop", lambda *_: None)
        with pytest.raises(flight.FlightUnavailableError, match="is gone"):
            ingest()
    assert (table.rows, table.version) == ([], 1)
    for _ in range(2):
        assert ingest() == 2
    assert (table.rows, table.version) == ([("a", 1), ("b", 2)], 2)


def test_a_table_that_another_created_first_is_not_written_to_by_a_repetition(
    door: Opened, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"idempotency-key": table.name}

    def ingest() -> int:
        return door.client.ingest(table.name, ROWS, missing=CREATE, there=FAIL, headers=headers)

    with monkeypatch.context() as racing:
        create = loading._create

        def second(*given: object) -> None:
            table.make()
            create(*given)  # type: ignore[arg-type]

        racing.setattr(loading, "_create", second)
        with pytest.raises(flight.FlightServerError, match="there is already a table"):
            ingest()
    with pytest.raises(flight.FlightServerError, match="there is already a table"):
        ingest()
    assert (table.rows, table.version) == ([], 1)


def test_a_load_that_failed_is_the_same_failure_by_its_key(door: Opened, table: Table) -> None:
    headers = {"idempotency-key": table.name}
    odd = pa.table({"k": ["a"], "n": ["many"]})
    table.make()
    for _ in range(2):
        with pytest.raises(pa.ArrowInvalid, match="expected int64"):
            door.client.ingest(table.name, odd, headers=headers)
    assert (table.rows, table.version) == ([], 1)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pa.table({"k": ["a"], "n": ["many"]}), "expected int64"),
        (pa.table({"k": ["a"], "other": [1]}), "other"),
    ],
)
def test_rows_that_do_not_fit_change_nothing(
    door: Opened, table: Table, rows: pa.Table, said: str
) -> None:
    table.make()
    for there in (APPEND, REPLACE):
        with pytest.raises(pa.ArrowInvalid, match=said):
            door.client.ingest(table.name, rows, there=there)
    assert (table.rows, table.version) == ([], 1)


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("index", ROWS, "table's name is 'index'"),
        ("a b", ROWS, "table's name is 'a b'"),
        ("twice", pa.table([[1], [2]], names=["a", "A"]), "a"),
        ("odd", pa.table({"a": pa.array([None], pa.null())}), "a"),
    ],
)
def test_a_table_that_cannot_be_is_refused_and_not_made(
    door: Opened, name: str, rows: pa.Table, said: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=said):
        door.client.ingest(name, rows, missing=CREATE, there=FAIL)
    assert name not in door.client.get("CommandGetTables")["table_name"].to_pylist()


def test_a_table_that_is_created_for_rows_that_fail_is_gone_again(
    door: Opened, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise bs.Invalid("these rows do not fit")

    monkeypatch.setattr("blockstore.reader.jobs.upload.applied", fails)
    with pytest.raises(pa.ArrowInvalid, match="these rows do not fit; nothing was written"):
        door.client.ingest(table.name, ROWS, missing=CREATE, there=FAIL)
    assert not table.there


def test_a_table_that_others_have_written_to_is_not_dropped_for_rows_that_fail(
    door: Opened, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        bs.open(f"{table.url}?durable=false").append(ROWS)
        raise bs.Invalid("these rows do not fit")

    monkeypatch.setattr("blockstore.reader.jobs.upload.applied", fails)
    with pytest.raises(pa.ArrowInvalid, match="these rows do not fit; nothing was written"):
        door.client.ingest(table.name, ROWS, missing=CREATE, there=FAIL)
    assert table.rows == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"temporary": True}, "no temporary tables"),
        ({"schema": "main"}, "without a schema"),
        ({"catalog": "lake"}, "without a catalog"),
        ({"transaction_id": b"1"}, "no transactions over several calls"),
    ],
)
def test_what_an_ingest_cannot_be_is_said(
    door: Opened, fields: dict[str, object], said: str
) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError), match=said):
        door.client.ingest("flights", pa.table({"n": [1]}), **fields)


def test_rows_beyond_the_limit_of_uploads_are_refused(door: Opened, table: Table) -> None:
    table.make()
    much = pa.table({"k": ["x" * 1000] * 2_000, "n": list(range(2_000))})
    with pytest.raises((pa.ArrowInvalid, OSError), match="larger than the limit of 1,048,576"):
        door.client.ingest(table.name, much)
    assert (table.rows, table.version) == ([], 1)
    assert door.idle()


def test_a_client_that_leaves_has_its_statement_cancelled(door: Opened, table: Table) -> None:
    table.make()
    slow = (
        f"INSERT INTO {table.name} SELECT a.s, sum(a.n) FROM flights a, flights b, flights c, "
        "range(100) GROUP BY a.s"
    )
    command = packed("CommandStatementUpdate", query=slow)
    options = flight.FlightCallOptions(
        headers=[(b"authorization", b"Bearer bsk_write")], timeout=1.5
    )
    writer, reader = door.client.flight.do_put(
        flight.FlightDescriptor.for_command(command), pa.schema([]), options
    )
    writer.done_writing()
    assert reader.read() is None, "the call has ended without a result"
    del writer
    assert door.idle()
    assert (table.rows, table.version) == ([], 1)


def test_two_ingests_at_once_are_two_versions(door: Opened, table: Table) -> None:
    table.make()
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda: counts.append(door.client.ingest(table.name, ROWS)))
        for _ in range(3)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert counts == [2, 2, 2]
    assert (len(table.rows), table.version) == (6, 4)


def test_a_damaged_batch_is_refused_before_it_is_stored(door: Opened, table: Table) -> None:
    table.make()
    # The offsets of a text do not ascend: it would have a negative length.
    offsets = pa.py_buffer(struct.pack("<3i", 0, 2, 1))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    bucket = door.http.gateway.need_jobs().store.bucket
    before = [one.key for one in bucket.list("jobs/")]
    with pytest.raises((pa.ArrowInvalid, OSError), match="are damaged"):
        door.client.ingest(table.name, pa.table({"k": texts, "n": [1, 2]}))
    assert (table.rows, table.version) == ([], 1)
    assert [one.key for one in bucket.list("jobs/")] == before
    assert door.idle()
