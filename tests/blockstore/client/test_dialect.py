"""The dialect of SQLAlchemy: what its users do with it, and SQLAlchemy's own tests."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

import blockstore as bs
from blockstore.reader.settings import JobSettings
from tests.reader.http.gateways import READ, WRITE, Served, make_lake, serving, settings

ROOT = Path(__file__).parents[3]
SOME = "InsertBehavior or HasTable or TableDDL or RowFetch or IntegerTest or DateTest or TextTest"
"""Their tests that every run has; scripts/prove has all of them."""
WANTED = os.environ.get("BLOCKSTORE_SQLALCHEMY", SOME)
PASSED = 20 if WANTED == SOME else 820
"""How many of SQLAlchemy's tests pass at least."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("dialect")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


def url_of(gateway: Served, token: str = WRITE, more: str = "") -> str:
    return f"{gateway.url.replace('http://', f'blockstore://{token}@')}/lake{more}"


@pytest.fixture
def engine(gateway: Served) -> Iterator[sa.Engine]:
    made = sa.create_engine(url_of(gateway))
    yield made
    made.dispose()


@pytest.mark.parametrize(
    ("url", "to", "token", "more"),
    [
        ("blockstore://bsk_x@localhost:9/lake", "http://localhost:9", "bsk_x", {}),
        ("blockstore://me:bsk_x@127.0.0.1/", "http://127.0.0.1:8080", "bsk_x", {}),
        ("blockstore://[::1]:9", "http://[::1]:9", None, {}),
        ("blockstore://bsk_x@gw/lake", "https://gw:8080", "bsk_x", {}),
        ("blockstore+http://gw", "http://gw:8080", None, {}),
        (
            "blockstore+https://localhost/?verify=/ca.pem&timeout_s=5&autocommit=true",
            "https://localhost:8080",
            None,
            {"verify": "/ca.pem", "timeout_s": 5.0, "autocommit": True},
        ),
    ],
)
def test_a_url_says_where_to_and_a_token_never_travels_in_the_clear_unasked(
    url: str, to: str, token: str | None, more: dict[str, Any]
) -> None:
    dialect = sa.create_engine(url).dialect
    assert dialect.create_connect_args(sa.make_url(url)) == ([to, token], more)
    assert "bsk_x" not in repr(sa.make_url("blockstore://me:bsk_x@gw"))
    with pytest.raises(sa.exc.ArgumentError, match="expected only autocommit"):
        dialect.create_connect_args(sa.make_url("blockstore://gw/lake?tls=false"))


def test_a_table_is_reflected_with_types_rules_and_comments(
    gateway: Served, engine: sa.Engine
) -> None:
    with bs.Client(gateway.url, WRITE) as client:
        client.execute(
            "create table kinds (k1 varchar, k2 bigint, a tinyint, b usmallint, c ubigint, d real,"
            " e double, f decimal(9, 2) default 1.5 check (f < 10), g date default '2026-01-31', "
            "h timestamptz, i timestamp, j time, k blob, l boolean default true, m varchar[], "
            "n integer[][], o2 integer, o struct(x integer), "
            "p varchar default 'it''s', primary key (k1, k2))"
        )
        client.execute("comment on column kinds.a is 'small ones'")
    looking = sa.inspect(engine)
    assert looking.get_table_names() == sorted([*looking.get_table_names()])
    assert "kinds" in looking.get_table_names()
    assert looking.has_table("kinds")
    assert not looking.has_table("nix")
    assert not looking.has_table("kinds", schema="nix")
    columns = {one["name"]: one for one in looking.get_columns("kinds")}
    shown = {name: repr(one["type"]) for name, one in columns.items()}
    assert shown == {
        "k1": "VARCHAR()", "k2": "BIGINT()", "a": "SMALLINT()", "b": "INTEGER()",
        "c": "NUMERIC(precision=20, scale=0)", "d": "REAL()", "e": "DOUBLE()",
        "f": "NUMERIC(precision=9, scale=2)", "g": "DATE()", "h": "TIMESTAMP(timezone=True)",
        "i": "TIMESTAMP()", "j": "TIME()", "k": "BLOB()", "l": "BOOLEAN()",
        "m": "ARRAY(VARCHAR(), dimensions=1)", "n": "ARRAY(INTEGER(), dimensions=2)",
        "o2": "INTEGER()", "o": "NullType()", "p": "VARCHAR()",
    }  # fmt: skip
    assert [name for name, one in columns.items() if not one["nullable"]] == ["k1", "k2"]
    assert columns["a"]["comment"] == "small ones"
    defaults = {name: one["default"] for name, one in columns.items() if one["default"]}
    assert defaults == {"f": "'1.50'", "g": "'2026-01-31'", "l": "true", "p": "'it''s'"}
    assert looking.get_pk_constraint("kinds")["constrained_columns"] == ["k1", "k2"]
    assert [one["sqltext"] for one in looking.get_check_constraints("kinds")] == ["(f < 10)"]
    assert looking.get_foreign_keys("kinds") == looking.get_indexes("kinds") == []
    for reads in (looking.get_columns, looking.get_pk_constraint, looking.get_indexes):
        with pytest.raises(sa.exc.NoSuchTableError):
            reads("nix")
    kinds = sa.Table("kinds", sa.MetaData(), autoload_with=engine)
    copy = kinds.to_metadata(sa.MetaData(), name="copied")
    copy._columns.remove(copy.c.o)
    copy.create(engine)
    again = {one["name"]: repr(one["type"]) for one in sa.inspect(engine).get_columns("copied")}
    assert again == {name: kind for name, kind in shown.items() if name != "o"}


def test_rows_are_written_and_read_by_expressions(gateway: Served, engine: sa.Engine) -> None:
    items = sa.Table(
        "select", sa.MetaData(),
        sa.Column("order", sa.String(20), primary_key=True),
        sa.Column("n", sa.Integer, server_default="7", comment="a number; it's so"),
        sa.Column("Price", sa.Numeric(9, 2)),
        sa.Column("seen", sa.DateTime(timezone=True)),
        sa.Column("doc", sa.JSON),
        sa.Column("tags", sa.ARRAY(sa.String)),
        comment="left out",
    )  # fmt: skip
    sa.Index("by_n", items.c.n)
    items.metadata.create_all(engine)
    items.metadata.create_all(engine)
    seen = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    row = {"order": "a", "n": 1, "Price": Decimal("1.50"), "seen": seen, "doc": {"x": [1]},
           "tags": ["p"]}  # fmt: skip
    with engine.begin() as connection:
        done = connection.execute(items.insert(), [row, {**row, "order": "b", "doc": None}])
        assert done.rowcount == 2
        connection.execute(items.insert().values([{"order": "c"}, {"order": "d"}]))
    with engine.connect() as connection:
        found = connection.execute(sa.select(items).where(items.c.order == "a")).one()
        assert found._asdict() == row
        some = sa.select(items.c.order).where(items.c.n.in_([7, 8])).order_by(items.c.order)
        assert connection.scalars(some.limit(5).offset(1)).all() == ["d"]
        assert connection.scalars(some.where(items.c.order.in_([]))).all() == []
        assert connection.scalar(sa.select(items.c.n / 2).where(items.c.order == "a")) == 0.5
        like = items.c.order.ilike("A") | items.c.order.regexp_match("^[b]$")
        assert connection.scalar(sa.select(sa.func.count()).where(like)) == 2
        doc = sa.select(items.c.order).where(items.c.doc["x"][0].as_integer() == 1)
        assert connection.scalars(doc).all() == ["a"]
    with engine.begin() as connection:
        changed = items.update().where(items.c.n == 7).values(n=items.c.n + 1)
        assert connection.execute(changed).rowcount == 2
        gone = items.delete().where(items.c.order == sa.bindparam("o"))
        assert connection.execute(gone, [{"o": "a"}, {"o": "b"}]).rowcount == 2
    with engine.connect() as connection:
        left = connection.execute(sa.select(items.c.order, items.c.n).order_by(items.c.order))
        assert left.all() == [("c", 8), ("d", 8)]
    with bs.Client(gateway.url, WRITE) as client:
        operations = [one["operation"] for one in client.history("select")]
    assert len(operations) == 6  # create, comment, two inserts, update, two deletes as one
    items.metadata.drop_all(engine)
    assert not sa.inspect(engine).has_table("select")


class Base(orm.DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "people"
    name: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    age: orm.Mapped[int | None]


def test_objects_are_kept(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all([Person(name=f"p{n}", age=n) for n in range(5)])
        session.flush()
        assert session.scalars(sa.select(Person).where(Person.age == 3)).one().name == "p3"
        session.get_one(Person, "p4").age = 40
        session.delete(session.get_one(Person, "p0"))
        session.commit()
        assert session.scalar(sa.select(sa.func.sum(Person.age))) == 46
        session.add(Person(name="p1"))
        with pytest.raises(sa.exc.IntegrityError, match="p1"):
            session.flush()
        session.rollback()


def test_a_frame_goes_there_and_back(gateway: Served, engine: sa.Engine) -> None:
    frame = pandas.DataFrame(
        {
            "n": [1, 2, 3],
            "x": [0.1, None, 1e300],
            "s": ["a", None, "it's"],
            "t": pandas.to_datetime(
                [dt.datetime(2026, 1, 31, 12, 30, 0, 5), None, dt.datetime(1969, 1, 1)]
            ),
            "u": pandas.to_datetime(["2026-01-31", None, None], utc=True),
            "b": [True, False, True],
        }
    )
    assert frame.to_sql("frames", engine) == 3
    back = pandas.read_sql("frames", engine, index_col="index")
    back.index.name = None
    kinds = {"t": "datetime64[ns]", "u": "datetime64[ns, UTC]"}
    pandas.testing.assert_frame_equal(back.astype(kinds), frame)
    frame.to_sql("frames", engine, if_exists="append", index_label="index")
    found = pandas.read_sql(
        sa.text("select count(*) as c from frames where n > :low"), engine, params={"low": 1}
    )
    assert found["c"][0] == 4
    with bs.Client(gateway.url, WRITE) as client:
        assert [one["operation"] for one in client.history("frames")] == [
            "append", "append", "create"
        ]  # fmt: skip
    frame[["n"]].to_sql("frames", engine, if_exists="replace", index=False)
    assert list(pandas.read_sql_table("frames", engine)["n"]) == [1, 2, 3]
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("frames", engine)
    chunks = pandas.read_sql("select n from flights", engine, chunksize=300)
    assert [len(one) for one in chunks] == [300, 300, 300, 100]


def test_errors_are_those_of_sqlalchemy_and_readable(gateway: Served, engine: sa.Engine) -> None:
    meta = sa.MetaData()
    ruled = sa.Table(
        "ruled", meta, sa.Column("k", sa.Integer, primary_key=True),
        sa.Column("n", sa.Integer, sa.CheckConstraint("n > 0"), nullable=False),
    )  # fmt: skip
    meta.create_all(engine)
    with engine.begin() as connection:
        connection.execute(ruled.insert().values(k=1, n=1))
    for wrong in ({"k": 1, "n": 2}, {"k": 2, "n": 0}, {"k": 2, "n": None}):
        with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
            connection.execute(ruled.insert().values(**wrong))
    for sql, says in (
        ("selec", "syntax"),
        ("select nix from ruled", "nix"),
        ("select * from nix", "no table"),
    ):
        with pytest.raises(sa.exc.ProgrammingError, match=says), engine.connect() as connection:
            connection.execute(sa.text(sql))
    with pytest.raises(sa.exc.CompileError, match="declare a primary key"):
        sa.Index("once", ruled.c.n, unique=True).create(engine)
    unique = sa.Table("unique_one", meta, sa.Column("k", sa.Integer, unique=True))
    with pytest.raises(sa.exc.ProgrammingError, match="UNIQUE"):
        unique.create(engine)
    with pytest.raises(sa.exc.NotSupportedError, match="1 change"), engine.connect() as connection:
        connection.execute(ruled.insert().values(k=2, n=2))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(ruled.insert().values(k=3, n=3))
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
        assert connection.scalars(sa.select(ruled.c.k).order_by("k")).all() == [1, 2, 3]
    reader = sa.create_engine(url_of(gateway, READ))
    with pytest.raises(sa.exc.ProgrammingError, match="write"), reader.connect() as connection:
        connection.execute(ruled.delete())
    reader.dispose()
    nowhere = sa.create_engine("blockstore://127.0.0.1:9/lake")
    with (
        pytest.raises(sa.exc.OperationalError, match="does not respond"),
        nowhere.connect() as connection,
    ):
        connection.execute(sa.text("select 1"))
    nowhere.dispose()


def test_a_result_that_is_closed_ends_its_query(gateway: Served, engine: sa.Engine) -> None:
    huge = sa.text("select range as n from range(1_000_000_000)")
    with engine.connect() as connection:
        with connection.execute(huge) as rows:
            assert rows.fetchmany(2) == [(0,), (1,)]
        for part in connection.execution_options(yield_per=1_000).execute(huge).partitions(1_000):
            assert len(part) == 1_000
            break
        assert connection.scalar(sa.text("select 1")) == 1


_ENVIRONMENT = {key: os.environ[key] for key in os.environ if key not in ("CI", "PYTEST_ADDOPTS")}
"""In CI a skip is a failure; of these tests ``requirements.py`` says why each does not apply."""


@pytest.mark.slow
@pytest.mark.timeout(2_400)
def test_sqlalchemys_own_tests_of_a_dialect(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    # There are thousands of jobs, and no other gateway: looking for its work is half of the time.
    asked = settings(
        f"{tmp_path}/lake?durable=false",
        tmp_path,
        tokens=(),
        jobs=JobSettings(poll_s=30, lease_s=100, work_dir=tmp_path / "work"),
    )
    here = "tests/blockstore/client/alchemy"
    with serving(asked) as served:
        url = served.url.replace("http://", "blockstore://")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", here]
            + ["-p", here.replace("/", ".") + ".plugin", "--tb", "short"]
            + [f"-pno:{one}" for one in ("cacheprovider", "xdist", "schemathesis", "timeout")]
            + ["--dburi", f"{url}/lake?autocommit=true", f"{here}/cases.py", "-k", WANTED],
            cwd=ROOT, capture_output=True, text=True, env=_ENVIRONMENT,
        )  # fmt: skip
    said = done.stdout[-20_000:] + done.stderr[-2_000:]
    assert done.returncode == 0, said
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None, said
    assert int(passed[1]) >= PASSED
