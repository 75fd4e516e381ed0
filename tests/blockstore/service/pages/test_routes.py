"""The timeline's addresses over HTTP, by Starlette and by FastAPI."""

from __future__ import annotations

import httpx
import orjson
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.types import ASGIApp

from blockstore.errors import Corrupt, NotFound, Unavailable
from blockstore.service.pages.live import LiveTimelines
from blockstore.service.pages.routes import timeline_routes
from blockstore.table import Table
from tests.blockstore.service.pages.table import advance, filled, put
from tests.support.asking import asking

LOST = "01J00000000000000000000000"


def source(table: Table, **options: object) -> LiveTimelines:
    def open_table(name: str) -> Table:
        if name != "lake/t":
            raise NotFound(f"there is no table {name}")
        return table

    return LiveTimelines(open_table, table.world, **options)  # type: ignore[arg-type]


def starlette(table: Table) -> ASGIApp:
    return Starlette(routes=timeline_routes(source(table)))


def fastapi(table: Table) -> ASGIApp:
    app = FastAPI()
    app.router.routes.extend(timeline_routes(source(table)))
    return app


def ask(app: ASGIApp, path: str, **options: object) -> httpx.Response:
    with asking(app) as client:
        return client.get(path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [starlette, fastapi])
def test_the_blocks_and_one_of_them_are_answered(make: object) -> None:
    table = filled(3)
    app = make(table)  # type: ignore[operator]
    answer = ask(app, "/timeline?table=lake/t")
    assert answer.status_code == 200
    assert answer.json()["table"] == "lake/t"
    ulids = answer.json()["blocks"]["ulid"]
    assert ulids == table.log.state.blocks.ulids()
    detail = ask(app, f"/timeline/block?table=lake/t&ulid={ulids[0]}").json()
    assert detail["version"] == 2
    assert detail["meta"]["rows"] == 6
    assert detail["meta"]["sources"] == [ulids[0]]
    assert [file["path"] for file in detail["meta"]["files"]] == ["chunks/000001.parquet"]


def test_an_answer_that_the_browser_holds_is_not_sent_again() -> None:
    table = filled(3)
    with asking(starlette(table)) as client:
        first = client.get("/timeline?table=lake/t")
        again = client.get(
            "/timeline?table=lake/t", headers={"If-None-Match": first.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")
        put(table, 5)
        advance(table, 60)
        later = client.get(
            "/timeline?table=lake/t", headers={"If-None-Match": first.headers["etag"]}
        )
        assert later.json()["count"] == 4


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/timeline", 400, "the parameter table is missing"),
        ("/timeline?table=other", 404, "there is no table other"),
        ("/timeline/block?table=lake/t&ulid=../../etc", 400, "expected a block's ULID"),
        ("/timeline/block?table=lake/t", 400, "the parameter ulid is missing"),
        (
            f"/timeline/block?table=lake/t&ulid={LOST}",
            404,
            "upload is running or was aborted, or it has been removed",
        ),
    ],
)
def test_what_cannot_be_answered_says_why(path: str, status: int, words: str) -> None:
    answer = ask(starlette(filled(1)), path)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("error", "status"), [(Unavailable("the store sleeps"), 503), (Corrupt("bad"), 500)]
)
def test_a_store_that_fails_is_no_missing_table(error: Exception, status: int) -> None:
    class Failing:
        def timeline(self, table: str) -> object:
            raise error

        detail = timeline

    answer = ask(Starlette(routes=timeline_routes(Failing())), "/timeline?table=t")  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()) == (status, {"error": str(error)})


def test_answers_carry_the_headers_of_a_page_and_are_compressed() -> None:
    answer = ask(starlette(filled(40)), "/timeline?table=lake/t")
    assert answer.headers["content-encoding"] == "gzip"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert orjson.loads(answer.content)["count"] == 40
