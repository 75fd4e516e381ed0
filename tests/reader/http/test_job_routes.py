"""Jobs over HTTP: uploads whole or absent, keys that make repeating safe, files, cancellation."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.reader.http.tokens import hashed
from blockstore.reader.jobs.record import Kind, Outcome, Request, State
from blockstore.reader.jobs.store import JobStore
from tests.reader.http.gateways import (
    ADMIN,
    HEADER,
    OTHER,
    SCHEMA,
    WRITE,
    Served,
    csv_of,
    make_lake,
    rows_of,
    serving,
    settings,
    until_ended,
)
from tests.support.faulty import FaultyBucket

CSV = {"Content-Type": "text/csv"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway of its own: these tests write."""
    folder = tmp_path_factory.mktemp("jobs")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


def counted(served: Served) -> int:
    """The rows of the table now, whatever was polled."""
    served.gateway.tables.poll_now("salaries")
    return int(served.rows("select count(*) as c from salaries")[0]["c"])


def test_an_upload_appends_its_rows_and_tells_its_progress(jobs: Served) -> None:
    before = counted(jobs)
    data = csv_of(range(100))
    asked = jobs.http.post("/v1/jobs?table=salaries&message=by+hand", content=data, headers=CSV)
    assert asked.status_code == 202, asked.text
    job = asked.json()["id"]
    assert asked.headers["location"] == f"/v1/jobs/{job}"
    ended = until_ended(jobs.http, job)
    assert (ended["state"], ended["error"]) == ("done", None)
    assert ended["written"]["rows"] == 100
    assert ended["progress"] == {"rows": 100, "bytes": len(data), "bytes_total": len(data)}
    assert counted(jobs) == before + 100
    newest = jobs.http.get("/v1/tables/salaries/history?limit=1").json()["entries"][0]
    assert (newest["message"], newest["rows_added"]) == ("by hand", 100)


def test_an_uploads_checks_of_the_boundary_are_in_the_metrics(jobs: Served) -> None:
    def reported(name: str) -> float:
        text = jobs.http.get("/metrics").text
        (line,) = [
            one for one in text.splitlines() if one.startswith(f"blockstore_boundary_{name}_total ")
        ]
        return float(line.split()[1])

    before = reported("checks")
    job = jobs.http.post("/v1/jobs?table=salaries", content=csv_of(range(3)), headers=CSV).json()[
        "id"
    ]
    assert until_ended(jobs.http, job)["state"] == "done"
    assert reported("checks") == before + 1
    assert (reported("refusals"), reported("failures"), reported("advances")) == (0, 0, 0)
    assert reported("seconds") > 0


def test_tsv_with_other_nulls_is_read(jobs: Served) -> None:
    data = "n\ts\ttime\n5\tNA\t2026-01-01T00:00:00Z\n"
    headers = {"Content-Type": "text/tab-separated-values; charset=utf-8"}
    job = jobs.http.post("/v1/jobs?table=salaries&null=NA", content=data, headers=headers).json()[
        "id"
    ]
    assert until_ended(jobs.http, job)["state"] == "done"
    jobs.gateway.tables.poll_now("salaries")
    assert jobs.rows("select count(*) as c from salaries where s is null")[0]["c"] >= 1


def test_a_bad_row_says_line_column_value_and_rule_and_writes_nothing(jobs: Served) -> None:
    before = counted(jobs)
    data = (
        csv_of(range(50)) + "2026-01-01T00:00:00Z,many,x\n" + csv_of(range(5)).removeprefix(HEADER)
    )
    job = jobs.http.post("/v1/jobs?table=salaries", content=data, headers=CSV).json()["id"]
    error = until_ended(jobs.http, job)["error"]
    assert (error["error"], error["line"], error["column"], error["value"], error["rule"]) == (
        "bad_row",
        52,
        "n",
        "many",
        "int",
    )
    assert counted(jobs) == before


def test_the_same_key_is_the_same_job_and_other_content_is_refused(jobs: Served) -> None:
    before = counted(jobs)
    headers = {**CSV, "Idempotency-Key": "march"}
    data = csv_of(range(10))
    first = jobs.http.post("/v1/jobs?table=salaries", content=data, headers=headers)
    again = jobs.http.post("/v1/jobs?table=salaries", content=data, headers=headers)
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["id"] == again.json()["id"]
    until_ended(jobs.http, first.json()["id"])
    late = jobs.http.post("/v1/jobs?table=salaries", content=data, headers=headers)
    assert (late.status_code, late.json()["state"]) == (200, "done")
    other = jobs.http.post("/v1/jobs?table=salaries", content=csv_of(range(11)), headers=headers)
    assert (other.status_code, other.json()["error"]) == (409, "conflict")
    with jobs.as_(OTHER) as somebody_else:
        theirs = somebody_else.post("/v1/jobs?table=salaries", content=data, headers=headers)
        assert theirs.status_code == 202
        until_ended(somebody_else, theirs.json()["id"])
    assert counted(jobs) == before + 20


def test_an_upload_is_for_the_table_that_stood_there_when_it_was_asked_for(
    jobs: Served, tmp_path: Path
) -> None:
    folder = Path(jobs.gateway.settings.tables.urls[0].partition("?")[0])
    url = f"{folder}/passing?durable=false"
    made = bs.create(url, schema=SCHEMA)
    jobs.gateway.tables.poll_now()
    assert jobs.gateway.tables.table("passing").log.state.version == 1
    made.alter(add=[pa.field("extra", pa.int64())])
    data = csv_of(range(1)).replace("s\n", "s,extra\n").replace("row 0\n", "row 0,5\n")
    job = jobs.http.post("/v1/jobs?table=passing", content=data, headers=CSV).json()["id"]
    ended = until_ended(jobs.http, job)
    assert (ended["state"], ended["error"]) == ("done", None), "the column was added a moment ago"
    store = jobs.gateway.need_jobs().store
    (change,) = made.log.entries(2, 2)
    assert (store.request(job).table_version, store.request(job).table_commit) == (2, change.commit)
    # Made beside it, so that no poll comes between.
    bs.create(f"{tmp_path}/new?durable=false", schema=SCHEMA).append(rows_of(range(3)))
    (folder / "passing").rename(tmp_path / "old")
    (tmp_path / "new").rename(folder / "passing")
    job = jobs.http.post("/v1/jobs?table=passing", content=csv_of(range(7)), headers=CSV).json()[
        "id"
    ]
    ended = until_ended(jobs.http, job)
    assert (ended["state"], ended["error"]) == ("done", None), (
        "the handle of the other one is not asked"
    )
    assert bs.open(url).snapshot().scan().to_table().num_rows == 10


WIDE = "time,n,s\n2026-01-01T00:00:00Z,1,ä\n".encode("utf-16-le")


@pytest.mark.parametrize(
    ("said", "body", "reason"),
    [
        ("charset=latin-1", b"n\n1\n", "the file is in latin-1, and only UTF-8, or UTF-16"),
        ('charset="windows-1252"', b"n\n1\n", "convert the file, and say charset=utf-8"),
        ("header=absent", b"1\n", "its first line must name the columns: add one"),
        ("charset=utf-16", WIDE, "begins without a byte order mark"),
        ("charset=UTF-8", None, None),
        ('Charset="us-ascii"; header=present', None, None),
        ("header=Present", None, None),
        ("charset=utf-16", b"\xff\xfe" + WIDE, None),
    ],
)
def test_what_the_content_type_says_of_a_text_is_respected(
    jobs: Served, said: str, body: bytes | None, reason: str | None
) -> None:
    response = jobs.http.post(
        "/v1/jobs?table=salaries",
        content=csv_of(range(1)) if body is None else body,
        headers={"Content-Type": f"text/csv; {said}"},
    )
    if reason is None:
        assert until_ended(jobs.http, response.json()["id"])["state"] == "done"
    else:
        assert response.status_code == 415
        assert reason in response.json()["message"]


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/v1/jobs", CSV, b"n\n", 400),
        ("/v1/jobs?table=", CSV, b"n\n", 400),
        ("/v1/jobs?table=nope", CSV, b"n\n", 404),
        ("/v1/jobs?table=salaries", {"Content-Type": "image/png"}, b"x", 415),
        ("/v1/jobs?table=salaries", {}, b"x", 415),
        ("/v1/jobs?table=salaries", {**CSV, "Content-Encoding": "gzip"}, b"x", 415),
        ("/v1/jobs?table=salaries", CSV, b"x" * (1 << 21), 413),
        (f"/v1/jobs?table=salaries{'&null=x' * 21}", CSV, b"n\n", 400),
        ("/v1/jobs?table=salaries", {**CSV, "Idempotency-Key": "k" * 201}, b"x", 400),
        ("/v1/jobs", {"Content-Type": "application/json"}, b"{", 400),
        ("/v1/jobs", {"Content-Type": "application/json"}, b'{"kind":"query"}', 400),
        ("/v1/jobs", {"Content-Type": "application/json"}, b'{"kind":"upload"}', 400),
        (
            "/v1/jobs",
            {"Content-Type": "application/json"},
            b'{"kind":"download","table":"nope"}',
            404,
        ),
    ],
)
def test_what_is_no_job_is_refused_at_once(
    jobs: Served, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    answer = jobs.http.post(path, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the body is not valid JSON: EOF while parsing an object"),
        (b"3", "the body is not an object, expected an object"),
        (b'{"kind": "query", "wish": 1}', "the body has the unknown key 'wish'"),
        (b"{}", "the body lacks the key 'kind'"),
    ],
)
def test_what_is_wrong_with_a_job_names_the_body_and_the_key(
    jobs: Served, body: bytes, said: str
) -> None:
    answer = jobs.http.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert said in answer.json()["message"]


def test_a_parameter_that_cannot_be_is_named(jobs: Served) -> None:
    answer = jobs.http.get("/v1/jobs?limit=many")
    assert answer.status_code == 400
    assert "the query's parameter 'limit' is invalid" in answer.json()["message"]


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "json", "arrow"])
def test_a_download_is_a_file_of_the_tables_rows(jobs: Served, form: str) -> None:
    asked = jobs.http.post(
        "/v1/jobs", json={"kind": "download", "table": "flights", "format": form}
    )
    assert asked.status_code == 202, asked.text
    ended = until_ended(jobs.http, asked.json()["id"])
    assert ended["state"] == "done", ended
    assert (ended["result"]["rows"], ended["result"]["versions"]) == (1000, {"flights": 3})
    file = jobs.http.get(ended["result"]["href"])
    assert len(file.content) == ended["result"]["bytes"] == int(file.headers["content-length"])
    assert f"{ended['id']}.{form}" in file.headers["content-disposition"]
    if form == "parquet":
        assert pq.read_table(io.BytesIO(file.content))["n"].to_pylist() == list(range(1000))
    if form == "json":
        assert [row["n"] for row in json.loads(file.content)] == list(range(1000))
    if form == "csv":
        assert file.text.count("\n") == 1001


def test_a_query_that_cannot_be_answered_fails_its_job_with_the_reason(jobs: Served) -> None:
    job = jobs.http.post(
        "/v1/jobs", json={"kind": "query", "sql": "select nope from flights"}
    ).json()["id"]
    ended = until_ended(jobs.http, job)
    assert ended["state"] == "failed"
    assert "nope" in ended["error"]["message"]
    answer = jobs.http.get(f"/v1/jobs/{job}/result")
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")


def test_an_answer_that_its_form_cannot_write_fails_its_job_with_the_reason(jobs: Served) -> None:
    sql = "select union_value(day := 'infinity'::date) as c"
    job = jobs.http.post("/v1/jobs", json={"kind": "query", "sql": sql, "format": "json"}).json()[
        "id"
    ]
    ended = until_ended(jobs.http, job)
    assert (ended["state"], ended["error"]["error"]) == ("failed", "invalid")
    assert "the result cannot be written as json" in ended["error"]["message"]
    assert "use arrow, or cast the columns" in ended["error"]["message"]


def test_a_running_query_can_be_cancelled(jobs: Served) -> None:
    sql = (
        "select count(*) from flights a, flights b, flights c, flights d where a.n + b.n + c.n + "
        "d.n < 0"
    )
    job = jobs.http.post("/v1/jobs", json={"kind": "query", "sql": sql}).json()["id"]
    assert jobs.http.delete(f"/v1/jobs/{job}").status_code == 202
    assert until_ended(jobs.http, job)["state"] == "cancelled"
    assert jobs.http.delete(f"/v1/jobs/{job}").status_code == 200


def test_jobs_are_listed_newest_first_and_unknown_ones_are_404(jobs: Served) -> None:
    made = [
        jobs.http.post("/v1/jobs", json={"kind": "query", "sql": "select 1"}).json()["id"]
        for _ in range(3)
    ]
    listed = [job["id"] for job in jobs.http.get("/v1/jobs?limit=3").json()["jobs"]]
    assert set(listed) == set(made)
    for unknown in ("x", "01JD0000000000000000000000", "..", "%2e%2e%2fsalaries"):
        assert jobs.http.get(f"/v1/jobs/{unknown}").status_code == 404


def test_the_list_of_jobs_comes_in_pages_that_later_jobs_do_not_shift(tmp_path: Path) -> None:
    with serving(settings(make_lake(tmp_path), tmp_path)) as served, served.as_(OTHER) as other:

        def made(client: httpx.Client, sql: str) -> str:
            answer = client.post("/v1/jobs", json={"kind": "query", "sql": sql})
            return str(answer.json()["id"])

        def page(client: httpx.Client, limit: int, before: str | None) -> dict[str, Any]:
            asked = {"limit": str(limit), **({} if before is None else {"before": before})}
            answer = client.get("/v1/jobs", params=asked)
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        mine, theirs = [], []
        for number in range(6):  # by turns, and the store's clock has a new millisecond for each
            mine.append(made(served.http, f"select {number}"))
            theirs.append(made(other, "select 'theirs'"))
        for limit, sizes in ((4, [4, 2]), (3, [3, 3]), (6, [6]), (100, [6]), (1, [1] * 6)):
            found, place, seen = [], None, []
            while True:
                one = page(served.http, limit, place)
                if not found:
                    later = made(served.http, "select 'later'")
                seen.append(len(one["jobs"]))
                found += [job["id"] for job in one["jobs"]]
                place = one["next"]
                if place is None:
                    break
                assert found[-1] in place
            newest = mine[::-1]
            assert found == newest[: len(found)]
            assert seen == sizes
            mine.append(later)
            served.http.delete(f"/v1/jobs/{later}")
            assert until_ended(served.http, later)["state"] in ("done", "cancelled")
            served.gateway.need_jobs().store.forget(
                served.gateway.need_jobs().store.sketch(mine.pop())
            )
        assert [job["id"] for job in page(other, 100, None)["jobs"]] == theirs[::-1]

        # The job that a page ended with expires; the next page begins behind it all the same.
        first = page(served.http, 2, None)
        store = served.gateway.need_jobs().store
        until_ended(served.http, mine[-2])
        store.forget(store.sketch(mine[-2]))
        rest = page(served.http, 100, first["next"])
        assert [job["id"] for job in rest["jobs"]] == mine[-3::-1]
        assert rest["next"] is None


@pytest.mark.parametrize("place", ["x", "1", "01JD0000000000000000000000", "1-", "-1-x", "9" * 40])
def test_what_is_no_place_in_the_list_of_jobs_is_refused(jobs: Served, place: str) -> None:
    answer = jobs.http.get("/v1/jobs", params={"before": place})
    assert answer.status_code == 400
    assert "before" in answer.json()["message"]


def test_a_gateway_without_jobs_says_so_and_writes_nothing(tmp_path: Path, jobs: Served) -> None:
    url = jobs.gateway.settings.tables.urls[0]
    asked = settings(url, tmp_path)
    with serving(replace(asked, jobs=replace(asked.jobs, enabled=False))) as one:
        answer = one.http.post("/v1/jobs", json={"kind": "query", "sql": "select 1"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_page_of_the_list_costs_the_same_however_many_jobs_are_kept(tmp_path: Path) -> None:
    with (
        serving(settings(make_lake(tmp_path), tmp_path)) as served,
        served.as_(OTHER) as other,
        served.as_(ADMIN) as boss,
    ):
        jobs, world = served.gateway.need_jobs(), served.gateway.world
        faulty = FaultyBucket(jobs.store.bucket)
        served.gateway.jobs = replace(jobs, store=JobStore(faulty))
        numbers = itertools.count(world.clock.now_ms() - 1_000_000)

        def kept(count: int) -> None:
            """So many jobs more of each of two owners, which have ended."""
            for token in (WRITE, OTHER) * count:
                wanted = Request(
                    kind=Kind.QUERY,
                    owner=hashed(token)[:16],
                    created_ms=next(numbers),
                    form="csv",
                    sql="select 1",
                )
                job = world.ids.ulid()
                jobs.store.submit(job, wanted)
                jobs.store.finish(job, Outcome(state=State.DONE, attempt=0, ended_ms=0))
                jobs.store.unmark([job])

        def cost(client: httpx.Client) -> int:
            """The requests of a page of five and of the one after it."""
            before = len(faulty.calls)
            first = client.get("/v1/jobs?limit=5").json()
            second = client.get(f"/v1/jobs?limit=5&before={first['next']}").json()
            assert len({job["id"] for job in first["jobs"] + second["jobs"]}) == 10
            return len(faulty.calls) - before

        clients = (served.http, other, boss)
        kept(20)
        few = [cost(client) for client in clients]
        kept(60)
        assert [cost(client) for client in clients] == few
        # For each page: its folders and their places, and of each job request, records and outcome;
        # one job more shows that there is another page.
        assert few == [2 * (1 + 6 * 3)] * 2 + [2 * (3 + 6 * 3)]


def test_a_job_is_listed_once_however_often_it_was_submitted(tmp_path: Path) -> None:
    with serving(settings(make_lake(tmp_path), tmp_path)) as served:
        body, headers = {"kind": "query", "sql": "select 1"}, {"Idempotency-Key": "again"}
        ids = set()
        for _ in range(3):
            ids.add(served.http.post("/v1/jobs", json=body, headers=headers).json()["id"])
        (job,) = ids
        assert [one["id"] for one in served.http.get("/v1/jobs").json()["jobs"]] == [job]
        store = served.gateway.need_jobs().store
        assert len(store.places()[job]) == 1
        # A repetition that was cut off has left a place of another time.
        store.list_as(job, replace(store.request(job), created_ms=1))
        assert [one["id"] for one in served.http.get("/v1/jobs").json()["jobs"]] == [job]
