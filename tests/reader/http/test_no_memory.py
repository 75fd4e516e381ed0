"""A query that needs more than it may use is refused for good: an answer of its own, which says
which key, and which no client asks for again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import blockstore as bs
from blockstore.client import dbapi
from blockstore.errors import Invalid, NoMemory, Unavailable
from blockstore.reader.settings import QuerySettings
from tests.reader.http.gateways import WRITE, Served, make_lake, serving, settings, until_ended

HOLDS_ALL = "select list(x) as l from range(1000000000) t(x)"
SPILLS = "select r, hash(r) as h from range(20000000) t(r) order by h"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway whose queries get 64 MiB of memory and 1 MiB of disk each."""
    folder = tmp_path_factory.mktemp("small")
    query = QuerySettings(
        memory_bytes=128 << 20, spill_bytes=2 << 20, threads=1, at_once=2, isolated=True
    )
    with serving(settings(make_lake(folder), folder, query=query)) as one:
        yield one


def queries(served: Served) -> int:
    return served.gateway.engine.counts.queries


@pytest.mark.parametrize(
    ("sql", "limit", "key"),
    [
        (HOLDS_ALL, "64 MiB of memory", "memory in [query]"),
        (SPILLS, "1 MiB of temporary disk", "spill in [query]"),
    ],
)
def test_it_is_422_with_the_limit_and_its_key(
    small: Served, sql: str, limit: str, key: str
) -> None:
    answer = small.query(sql)
    assert answer.status_code == 422
    assert "retry-after" not in answer.headers
    told = answer.json()
    assert told["error"] == "no_memory"
    assert f"more than the {limit} that it may use" in told["message"]
    assert f"raise {key}" in told["message"]
    assert small.rows("select count(*) as c from flights") == [{"c": 1000}]


def test_a_client_is_told_at_once_and_does_not_ask_again(small: Served) -> None:
    asked = queries(small)
    with bs.Client(small.url, WRITE) as client, pytest.raises(NoMemory, match="raise memory in"):
        client.sql(HOLDS_ALL).to_arrow()
    assert queries(small) - asked == 1
    assert issubclass(NoMemory, Invalid)
    assert not issubclass(NoMemory, Unavailable)


def test_pep_249_calls_it_a_matter_of_operation(small: Served) -> None:
    with (
        dbapi.connect(small.url, WRITE) as connection,
        connection.cursor() as cursor,
        pytest.raises(dbapi.OperationalError, match="raise memory in"),
    ):
        cursor.execute(HOLDS_ALL)


def test_a_job_fails_at_its_first_attempt_and_says_why(small: Served) -> None:
    made = small.http.post(
        "/v1/jobs", json={"kind": "query", "sql": HOLDS_ALL, "format": "parquet"}
    )
    assert made.status_code in (200, 201, 202), made.text
    ended = until_ended(small.http, made.json()["id"])
    assert ended["state"] == "failed"
    assert "raise memory in [query]" in str(ended)
    assert "NoMemory" in str(ended)
