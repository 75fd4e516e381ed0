"""Answers that break off, and parameters that cannot be sent: errors of the tree and of PEP 249,
never foreign ones."""

from __future__ import annotations

import datetime as dt
import http.server
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from blockstore.client import Client, dbapi
from blockstore.errors import Invalid, Unavailable
from tests.reader.http.gateways import READ, Served, make_lake, serving, settings

ROWS = 200_000


def _stream(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    return out.getvalue()


class Breaking(http.server.BaseHTTPRequestHandler):
    """Answers a whole stream, half of one whose connection then ends, or bytes that are none; as
    the SQL says."""

    protocol_version = "HTTP/1.1"
    whole = _stream(pa.table({"x": range(ROWS)}))
    far = _stream(pa.table({"x": pa.array([0, 1 << 62], pa.timestamp("us"))}))

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        data = self.far if "far" in sql else self.whole
        if "half" in sql:
            data = data[: len(data) // 2]
        if "garbled" in sql:
            middle = len(data) // 2
            data = data[:middle] + b"\xff" * 200_000
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            if "half" not in sql:
                self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Breaking) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


FETCHES: list[Callable[[dbapi.Cursor], object]] = [
    lambda cursor: cursor.fetchone(),
    lambda cursor: cursor.fetchmany(5_000),
    lambda cursor: cursor.fetchall(),
    lambda cursor: list(cursor),
]


def _until_empty(fetch: Callable[[dbapi.Cursor], object], cursor: dbapi.Cursor) -> None:
    while fetch(cursor):
        pass


@pytest.mark.parametrize("how", ["half", "garbled"])
@pytest.mark.parametrize("first", [1, 3])
def test_every_fetch_after_a_break_says_so_until_the_next_execute(
    url: str, how: str, first: int
) -> None:
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(how)
        assert cursor.fetchone() == (0,)
        for fetch in (FETCHES[first], *FETCHES):
            with pytest.raises(dbapi.OperationalError, match="broke off") as reported:
                _until_empty(fetch, cursor)
            assert isinstance(reported.value.__cause__, Unavailable)
        cursor.execute("whole")
        assert len(cursor.fetchall()) == ROWS
        assert cursor.fetchone() is None


def test_a_value_that_python_does_not_have_is_an_error_that_stays(url: str) -> None:
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("far")
        for fetch in FETCHES:
            with pytest.raises(dbapi.DataError, match="VARCHAR"):
                fetch(cursor)


def test_a_fetch_that_was_interrupted_is_not_the_end_of_the_rows(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Iterator[tuple[Any, ...]]:
        yield (0,)
        raise KeyboardInterrupt

    monkeypatch.setattr(dbapi, "_tuples", interrupted)
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("whole")
        with pytest.raises(KeyboardInterrupt):
            cursor.fetchall()
        with pytest.raises(dbapi.OperationalError, match="interrupted"):
            cursor.fetchall()


@pytest.mark.parametrize("how", ["half", "garbled"])
def test_a_stream_that_broke_stays_broken(url: str, how: str) -> None:
    with Client(url) as client, client.sql(how).stream() as reader:
        with pytest.raises(Unavailable, match="broke off"):
            reader.read_all()
        for _ in range(2):
            with pytest.raises(Unavailable, match="broke off"):
                reader.read_next_batch()


def test_a_stream_that_was_left_reads_no_more(url: str) -> None:
    with Client(url) as client:
        with client.sql("whole").stream() as reader:
            reader.read_next_batch()
        with pytest.raises((Unavailable, pa.ArrowInvalid)):
            reader.read_all()


@pytest.mark.parametrize(
    "own", [FileNotFoundError("mine"), pa.ArrowInvalid("mine"), httpx.ConnectError("mine")]
)
def test_the_callers_own_error_stays_its_own(url: str, own: Exception) -> None:
    with Client(url) as client, pytest.raises(type(own), match="mine"):
        _read_and_raise(client, own)


def _read_and_raise(client: Client, own: Exception) -> None:
    with client.sql("whole").stream() as reader:
        assert reader.read_next_batch().num_rows > 0
        raise own


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("broken")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        (
            "select ?::timestamp = timestamp '2020-01-02 03:04:05.000006'",
            dt.datetime(2020, 1, 2, 3, 4, 5, 6),
        ),
        (
            "select ?::timestamptz = timestamptz '2020-01-02 01:04:05+00'",
            dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ),
        ("select ?::date = date '2020-01-02'", dt.date(2020, 1, 2)),
        ("select ?::time = time '03:04:05'", dt.time(3, 4, 5)),
        ("select ? = date '2020-01-02'", dt.date(2020, 1, 2)),
    ],
)
def test_times_are_parameters(gateway: Served, sql: str, value: object) -> None:
    with dbapi.connect(gateway.url, READ) as connection, connection.cursor() as cursor:
        assert cursor.execute(sql, [value]).fetchall() == [(True,)]


def test_a_time_finds_its_row(gateway: Served) -> None:
    with dbapi.connect(gateway.url, READ) as connection, connection.cursor() as cursor:
        row = cursor.execute("select time, n from flights where n = 7").fetchone()
        assert row is not None
        assert cursor.execute(
            "select time, n from flights where time = ?", [row[0]]
        ).fetchall() == [row]
        asked = "select count(*) from flights where time >= ?"
        day = row[0].date()
        found = cursor.execute(asked, (day,)).fetchall()
        assert found == cursor.execute(asked, [day.isoformat()]).fetchall() != [(0,)]


@pytest.mark.parametrize(
    "text",
    [
        "1.5",
        "0.1",
        "-12345678901234567890.12345678",
        "5",
        "1E+3",
        "0.000001",
        "9007199254740993",
        "-0.50",
    ],
)
def test_a_decimal_is_a_parameter_with_all_its_digits(gateway: Served, text: str) -> None:
    value = Decimal(text)
    with dbapi.connect(gateway.url, READ) as connection, connection.cursor() as cursor:
        assert cursor.execute(
            f"select ? = {value:f}, ?::decimal(38,8)", [value, value]
        ).fetchall() == [(True, value)]
        assert cursor.execute("select $price + 0.25", {"price": value}).fetchall() == [
            (value + Decimal("0.25"),)
        ]
        assert cursor.execute("select [?]::decimal(38,8)[]", [value]).fetchall() == [([value],)]
        assert cursor.execute("select ?::decimal(38,8)[]", [[value]]).fetchall() == [([value],)]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("1" * 39, "38 digits"),
        ("1e-39", "38 digits"),
        ("1e30000000", "decimal"),
        ("0x1", "decimal"),
        (1.5, "decimal"),
        ("NaN", "decimal"),
    ],
)
def test_what_is_no_decimal_is_refused(gateway: Served, value: object, says: str) -> None:
    answer = gateway.query("select ?", parameters=[{"$decimal": value}])
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid")
    assert says in answer.json()["message"]
    assert "parameter 1" in answer.json()["message"]


@pytest.mark.parametrize(
    "value",
    [Decimal("NaN"), Decimal("Infinity"), object(), {1, 2}, [1, {1}], 1j],
)
def test_a_parameter_that_cannot_be_sent_is_named(gateway: Served, value: object) -> None:
    with dbapi.connect(gateway.url, READ) as connection, connection.cursor() as cursor:
        with pytest.raises(dbapi.ProgrammingError, match="parameter 2 is "):
            cursor.execute("select ?, ?", [1, value])
        with pytest.raises(dbapi.ProgrammingError, match="parameter price is "):
            cursor.execute("select $price", {"price": value})
    with Client(gateway.url, READ) as client, pytest.raises(Invalid, match="parameter 1 is "):
        client.sql("select ?", [value])


def test_parameters_are_values_in_a_row_or_by_name(gateway: Served) -> None:
    with dbapi.connect(gateway.url, READ) as connection, connection.cursor() as cursor:
        assert cursor.execute("select $a + $b", {"a": 1, "b": 2}).fetchall() == [(3,)]
        for wrong in ("x", 5, {1}):
            with pytest.raises(dbapi.ProgrammingError, match="the parameters are"):
                cursor.execute("select ?", wrong)  # type: ignore[arg-type]
