"""Runs in the environment of the foreign engines: what the users of one PostgreSQL client do first,
against the gateway's Postgres door. Each step asserts what it finds.

``postgres_clients.py CLIENT PORT TOKEN``
"""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ROW = (5, "row 5", dt.datetime(2026, 1, 1, 0, 0, 5, tzinfo=dt.UTC))
QUERY = "SELECT n, s, time FROM flights WHERE n = {} AND s = {}"
SLOW = "SELECT count(*) FROM range(100_000_000_000) t(i) WHERE mod(i, 7) = 3"
MILLION = "SELECT i AS n, i * 0.5::double AS f, 'row ' || i AS s FROM range(1_000_000) t(i)"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = {} ORDER BY 1"
VALUES = (
    "SELECT 1.5::decimal(10,2), [1,2,NULL], true, NULL, date '2020-01-31', 'a'::BLOB, 0.1::double,"
    " interval 1 day, time '10:00', ['x','y z'], timestamp '1999-12-31 23:59:59.5'"
)
PRIVILEGES = (
    "SELECT has_table_privilege(current_user, %s, 'SELECT'), has_table_privilege(%s, 'TRIGGER')"
)
EXPECTED = [
    decimal.Decimal("1.50"),
    [1, 2, None],
    True,
    None,
    dt.date(2020, 1, 31),
    b"a",
    0.1,
    dt.timedelta(days=1),
    dt.time(10),
    ["x", "y z"],
    dt.datetime(1999, 12, 31, 23, 59, 59, 500_000),
]


@contextmanager
def refused(
    kind: type[Exception], says: str = 'Referenced column "nope" not found'
) -> Iterator[None]:
    """The block must raise this error, and its message say so."""
    try:
        yield
    except kind as error:
        if says not in str(error):
            raise
        return
    raise AssertionError(f"{kind.__name__} was not raised")


@contextmanager
def later(call: Callable[[], object]) -> Iterator[None]:
    """While the block runs, after half a second, this is called."""
    timer = threading.Timer(0.5, call)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def by_psycopg(port: int, token: str) -> None:
    import psycopg

    with psycopg.connect(f"host=127.0.0.1 port={port} user=me password={token}") as own:
        tables = own.execute(TABLES.format("%s"), ["public"]).fetchall()
        assert tables == [("flights",), ("people",), ("salaries",)]
        seen = own.execute("SELECT * FROM people LIMIT 0").description
        assert seen is not None
        assert [(one.name, one.type_display) for one in seen] == [
            ("id", "int8"),
            ("name", "text"),
            ("ok", "bool"),
            ("raw", "bytea"),
        ]
        for binary in (False, True):
            cursor = own.cursor(binary=binary)
            found = cursor.execute(QUERY.format("%s", "%s"), (5, "row 5")).fetchall()
            assert found == [ROW]
            (values,) = cursor.execute(VALUES).fetchall()
            assert list(values) == EXPECTED, values
        asked = own.execute(PRIVILEGES, ("flights", "flights"))
        assert asked.fetchone() == (True, False)
        with refused(psycopg.errors.InsufficientPrivilege, says="its own user, me, and of no"):
            own.execute("SELECT has_table_privilege(%s, %s, 'SELECT')", ("boss", "flights"))
        own.rollback()
        with refused(psycopg.errors.UndefinedTable, says='relation "nowhere" does not exist'):
            own.execute("SELECT has_table_privilege(%s, 'SELECT')", ("nowhere",))
        own.rollback()
        with own.cursor("streamed") as cursor:
            assert sum(1 for _ in cursor.execute("SELECT * FROM flights")) == 1000
        own.rollback()
        with refused(psycopg.errors.UndefinedColumn):
            own.execute("SELECT nope FROM flights")
        own.rollback()
        with refused(psycopg.errors.QueryCanceled, says="cancel"), later(own.cancel_safe):
            own.execute(SLOW)
        own.rollback()
        own.execute("INSERT INTO people (id, name) VALUES (%s, %s)", (1, "a"))
        with own.transaction():
            assert own.execute("SELECT name FROM people").fetchall() == [("a",)]
        own.commit()
    with psycopg.connect(
        f"host=127.0.0.1 port={port} user=me password={token}", autocommit=True
    ) as own:
        cursor = own.cursor()
        with cursor.copy("COPY people (id, name) FROM STDIN") as copy:
            for row in [(2, "b\t"), (3, None)]:
                copy.write_row(row)
        assert cursor.rowcount == 2
        with cursor.copy(
            "COPY (SELECT * FROM people ORDER BY id) TO STDOUT (FORMAT binary)"
        ) as copy:
            copy.set_types(["int8", "text", "bool", "bytea"])
            assert [row[:2] for row in copy.rows()] == [(1, "a"), (2, "b\t"), (3, None)]
        with own.pipeline():
            both = own.execute("SELECT 1"), own.execute("SELECT 2")
            assert [one.fetchone() for one in both] == [(1,), (2,)]


def by_asyncpg(port: int, token: str) -> None:
    asyncio.run(_asyncpg(port, token))


async def _asyncpg(port: int, token: str) -> None:
    import asyncpg

    where = {"host": "127.0.0.1", "port": port, "user": "me", "password": token}
    own = await asyncpg.connect(**where, database="lake")
    assert [tuple(one) for one in await own.fetch(QUERY.format("$1", "$2"), 5, "row 5")] == [ROW]
    (values,) = await own.fetch(VALUES)
    assert list(values) == EXPECTED, values
    async with own.transaction():
        rows = [one async for one in own.cursor("SELECT * FROM flights", prefetch=100)]
        assert len(rows) == 1000
    with refused(asyncpg.UndefinedColumnError):
        await own.fetch("SELECT nope FROM flights")
    with refused(TimeoutError, says=""):
        await own.fetch(SLOW, timeout=0.5)
    tables = await own.fetch(TABLES.format("$1"), "public")
    assert [one["table_name"] for one in tables] == ["flights", "people", "salaries"]
    prepared = await own.prepare("SELECT * FROM people")
    shown = [(one.name, one.type.name) for one in prepared.get_attributes()]
    assert shown == [("id", "int8"), ("name", "text"), ("ok", "bool"), ("raw", "bytea")]
    many = await own.fetch(MILLION)
    assert (len(many), tuple(many[-1])) == (1_000_000, (999_999, 499_999.5, "row 999999"))
    assert await own.execute("INSERT INTO people (id,name) VALUES ($1,$2)", 11, "x") == "INSERT 0 1"
    await own.executemany("INSERT INTO people (id,ok) VALUES ($1,$2)", [(12, True), (13, None)])
    await own.copy_records_to_table("people", records=[(14, "é", True, b"\0")])
    found = await own.fetch("SELECT * FROM people WHERE id > 10 ORDER BY id")
    assert [tuple(one)[:3] for one in found] == [
        (11, "x", None),
        (12, None, True),
        (13, None, None),
        (14, "é", True),
    ]
    await own.close()
    pool = await asyncpg.create_pool(**where, database="lake", min_size=2, max_size=4)
    assert await asyncio.gather(*(pool.fetchval("SELECT $1::int", i) for i in range(8))) == [
        *range(8)
    ]
    await pool.close()


def by_sqlalchemy(port: int, token: str) -> None:
    import sqlalchemy as sa

    engine = sa.create_engine(f"postgresql+psycopg://me:{token}@127.0.0.1:{port}/lake")
    seen = sa.inspect(engine)
    assert sorted(seen.get_table_names()) == ["flights", "people", "salaries"]
    assert "public" in seen.get_schema_names()
    assert seen.get_view_names() == []
    assert seen.has_table("flights")
    assert not seen.has_table("nothing")
    columns = [(one["name"], str(one["type"])) for one in seen.get_columns("people")]
    assert columns == [("id", "BIGINT"), ("name", "TEXT"), ("ok", "BOOLEAN"), ("raw", "BYTEA")]
    assert seen.get_pk_constraint("people")["constrained_columns"] == ["id"]
    assert seen.get_foreign_keys("people") == []
    assert seen.get_indexes("people") == []
    assert seen.get_unique_constraints("people") == []
    tables = sa.MetaData()
    tables.reflect(engine)
    people, flights = tables.tables["people"], tables.tables["flights"]
    with engine.begin() as own:
        own.execute(people.insert(), [{"id": 21, "name": "p"}, {"id": 22, "name": "q"}])
        own.execute(people.update().where(people.c.id == 21).values(name="r"))
        added = people.insert().values(id=23, name="s").returning(people.c.id)
        assert own.execute(added).scalar_one() == 23
    with engine.connect() as own:
        some = sa.select(people.c.name).where(people.c.id.in_([21, 22, 23])).order_by(people.c.id)
        assert own.execute(some).scalars().all() == ["r", "q", "s"]
        few = sa.select(flights).where(flights.c.n < 10).order_by(flights.c.n).limit(2).offset(5)
        assert [one.n for one in own.execute(few)] == [5, 6]
        count = sa.select(sa.func.count()).select_from(flights)
        assert own.execute(count).scalar_one() == 1000
    with engine.connect().execution_options(stream_results=True) as own:
        parts = own.execute(sa.text(MILLION)).partitions(100_000)
        assert sum(len(one) for one in parts) == 1_000_000
        with refused(sa.exc.ProgrammingError):
            own.execute(sa.text("SELECT nope FROM flights"))
    with engine.connect() as own:
        driver = own.connection.driver_connection
        with refused(sa.exc.OperationalError, says="cancel"), later(driver.cancel):
            own.execute(sa.text(SLOW))
    engine.dispose()


def by_adbc(port: int, token: str) -> None:
    import adbc_driver_postgresql.dbapi as adbc
    import pyarrow as pa

    url = f"postgresql://me:{token}@127.0.0.1:{port}/lake"
    with adbc.connect(url) as own, own.cursor() as cursor:
        cursor.execute(QUERY.format("$1", "$2"), (5, "row 5"))
        assert cursor.fetchall() == [ROW]
        cursor.execute("SELECT * FROM flights")
        assert cursor.fetch_arrow_table().num_rows == 1000
        schema = own.adbc_get_table_schema("people")
        assert schema.names == ["id", "name", "ok", "raw"]
        (found,) = (
            own.adbc_get_objects(depth="tables", db_schema_filter="public").read_all().to_pylist()
        )
        names = [one["table_name"] for one in found["catalog_db_schemas"][0]["db_schema_tables"]]
        assert sorted(names) == ["flights", "people", "salaries"]
        with refused(adbc.Error):
            cursor.execute("SELECT nope FROM flights")
        own.rollback()
        cursor.execute(MILLION)
        assert cursor.fetch_arrow_table().num_rows == 1_000_000
        with refused(adbc.Error, says="cancel"), later(cursor.adbc_cancel):
            cursor.execute(SLOW)
            cursor.fetchall()
        own.rollback()
    with adbc.connect(url, autocommit=True) as own, own.cursor() as cursor:
        rows = pa.table({"id": pa.array([31, 32], pa.int64()), "name": ["a", None]})
        cursor.adbc_ingest("people", rows, mode="append")
        cursor.execute("SELECT id, name FROM people WHERE id > 30 ORDER BY id")
        assert cursor.fetchall() == [(31, "a"), (32, None)]


def by_ibis(port: int, token: str) -> None:
    import ibis

    own = ibis.postgres.connect(
        host="127.0.0.1", port=port, user="me", password=token, database="lake"
    )
    assert own.list_tables() == ["flights", "people", "salaries"]
    flights = own.table("flights")
    assert str(flights.schema()["n"]) == "int64"
    by_end = flights.group_by(end=flights.s.right(1)).agg(top=flights.n.max()).order_by("end")
    assert by_end.limit(2).to_pandas()["top"].tolist() == [990, 991]
    ranked = flights.mutate(rank=ibis.row_number().over(order_by=flights.n.desc()))
    assert ranked.filter(ranked.rank == 2).n.to_pyarrow().to_pylist() == [997]
    hours = (
        flights.mutate(hour=flights.time.truncate("h")).group_by("hour").agg(n=lambda t: t.count())
    )
    assert hours.n.sum().to_pandas() == 1000
    assert sum(one.num_rows for one in flights.to_pyarrow_batches()) == 1000
    low = ibis.param("int64")
    asked = flights.filter(flights.n >= low).n.sum()
    assert own.execute(asked, params={low: 998}) == 1997
    a, b = flights.select(a=flights.n), flights.select(b=flights.n)
    assert sum(one.num_rows for one in a.cross_join(b).to_pyarrow_batches()) == 1_000_000
    with refused(Exception, says="nope"):
        flights.mutate(m=ibis.literal(1)).nope.to_pandas()
    with refused(Exception):
        own.raw_sql("SELECT nope FROM flights")
    own.con.rollback()
    with refused(Exception, says="cancel"), later(own.con.cancel):
        own.raw_sql(SLOW)
    own.con.rollback()
    added = flights.filter(flights.n == 5).select(
        id=flights.n + 36, name=flights.s, ok=ibis.literal(True), raw=ibis.literal(b"x")
    )
    own.insert("people", added)
    people = own.table("people")
    assert people.filter(people.id == 41).name.to_pandas().tolist() == ["row 5"]
    with refused(Exception, "CREATE TEMPORARY is"):
        own.sql("SELECT 1 AS one").to_pandas()  # a view of its own


def million(port: int, token: str) -> None:
    """A million rows in text and in binary, by psycopg."""
    import psycopg

    with psycopg.connect(f"host=127.0.0.1 port={port} user=me password={token}") as own:
        for binary in (False, True):
            cursor = own.cursor(binary=binary)
            cursor.execute(MILLION)
            assert cursor.pgresult is not None
            assert cursor.pgresult.ntuples == 1_000_000
            last = cursor.pgresult.get_value(999_999, 2)
            assert last == b"row 999999"


CLIENTS: dict[str, Callable[[int, str], None]] = {
    "psycopg": by_psycopg,
    "asyncpg": by_asyncpg,
    "sqlalchemy": by_sqlalchemy,
    "adbc": by_adbc,
    "ibis": by_ibis,
    "million": million,
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    CLIENTS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
