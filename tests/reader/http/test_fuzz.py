"""What strangers may send: every route of the document, odd SQL, odd files.

Nothing of it is ever a fault of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.reader.http.gateways import (
    HEADER,
    WRITE,
    Served,
    csv_of,
    make_lake,
    serving,
    settings,
    until_ended,
)
from tests.support.examples import few

_KNOWN = {"namespace": "lake", "table": "flights"}
_HEADERS = {"Authorization": f"Bearer {WRITE}"}
_BOUNDED = hypothesis(
    max_examples=few(10),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
_WORDS = [
    "select",
    "from",
    "where",
    "group",
    "by",
    "order",
    "limit",
    "flights",
    "salaries",
    "n",
    "s",
    "time",
    "count(*)",
    "(",
    ")",
    ",",
    "*",
    "=",
    "<",
    ">",
    "'",
    '"',
    ";",
    "--",
    "/*",
    "*/",
    "read_csv('/etc/passwd')",
    "glob('*')",
    "getenv('HOME')",
    "attach",
    "'x'",
    "copy",
    "install",
    "load",
    "pragma",
    "set",
    "with",
    "as",
    "recursive",
    "join",
    "union",
    "all",
    "null",
    "1",
    "0",
    "-1",
    "1e308",
    "0x",
    "'a'",
    "$1",
    "?",
    "[1,2]",
    "{'a':1}",
    "::",
    "int",
    "json",
    "x",
    "->",
    "lambda",
    "K",
    "\x00",
    "\ud7ff",
]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("fuzz")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.mark.parametrize(
    ("part", "checks", "least"),
    [
        ("", [not_a_server_error], 12),
        (
            "/iceberg",
            [
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
            12,
        ),
    ],
    ids=["gateway", "iceberg"],
)
def test_the_document_is_kept_to_whatever_is_sent(
    fuzzed: Served, part: str, checks: list[CheckFunction], least: int
) -> None:
    """Schemathesis over every operation: no answer is 5xx but the 503 and 504 that the document
    tells; and at the Iceberg catalog, whose clients are others', each is one that it tells."""
    schema = schemathesis.openapi.from_url(f"{fuzzed.url}{part}/openapi.json")
    operations = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        operations += 1

        @_BOUNDED
        @given(case=operation.as_strategy())
        def send(case: schemathesis.Case) -> None:
            given_names = dict(case.path_parameters)
            for known in ({}, _KNOWN):
                # Names at random are those of nothing.
                case.path_parameters = {
                    name: known.get(name, value) for name, value in given_names.items()
                }
                answer = case.call(base_url=f"{fuzzed.url}{part}", headers=_HEADERS, timeout=60)
                if answer.status_code not in (503, 504):
                    case.validate_response(answer, checks=checks)

        send()
    assert operations >= least


@_BOUNDED
@given(words=st.lists(st.sampled_from(_WORDS), max_size=12), tail=st.text(max_size=8))
def test_odd_sql_is_answered_or_refused(fuzzed: Served, words: list[str], tail: str) -> None:
    sql = " ".join(["select", *words]) + tail
    sql = sql.encode("utf-8", "ignore").decode()
    answer = fuzzed.query(sql, accept="text/csv", limit=100)
    assert answer.status_code in (200, 400, 404, 413), answer.text
    assert "root:" not in answer.text


@_BOUNDED
@given(
    lines=st.lists(
        st.one_of(
            st.just("2026-01-01T00:00:00Z,1,x"),
            st.text(alphabet=st.sampled_from(list('0123456789,"\r\n\tTZ:-é\0 x')), max_size=30),
        ),
        max_size=6,
    ),
    head=st.sampled_from([HEADER, "n,s,time\n", "time,n\n", "", "\ufefftime,n,s\n", "time;n;s\n"]),
    garbage=st.binary(max_size=4),
)
def test_odd_files_are_whole_or_absent_and_say_why(
    fuzzed: Served, lines: list[str], head: str, garbage: bytes
) -> None:
    before = _rows(fuzzed)
    data = (head + "\n".join(lines)).encode() + garbage
    answer = fuzzed.http.post(
        "/v1/jobs?table=salaries", content=data, headers={"Content-Type": "text/csv"}
    )
    assert answer.status_code == 202, answer.text
    reported = until_ended(fuzzed.http, answer.json()["id"])
    after = _rows(fuzzed)
    if reported["state"] == "done":
        assert after - before == reported["written"]["rows"]
    else:
        assert reported["state"] == "failed"
        assert reported["error"]["error"] in ("bad_row", "bad_file"), reported
        assert after == before


def test_a_good_file_passes_the_same_door(fuzzed: Served) -> None:
    before = _rows(fuzzed)
    answer = fuzzed.http.post(
        "/v1/jobs?table=salaries", content=csv_of(range(3)), headers={"Content-Type": "text/csv"}
    )
    assert until_ended(fuzzed.http, answer.json()["id"])["state"] == "done"
    assert _rows(fuzzed) == before + 3


def _rows(served: Served) -> int:
    served.gateway.tables.poll_now("salaries")
    return int(served.rows("select count(*) as c from salaries")[0]["c"])
