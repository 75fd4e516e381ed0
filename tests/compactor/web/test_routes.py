"""The page's addresses over the process's own tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.applications import Starlette

import blockstore.compactor.web
from blockstore.compactor.process.status import Quarantined
from blockstore.compactor.web import routes
from blockstore.names import object_key
from blockstore.world import World
from tests.compactor.web.process import (
    NOW_MS,
    ShownProcess,
    busy,
    small_table,
    status,
    table_status,
)
from tests.support.asking import asking
from tests.support.browser import Visiting

FILES = Path(blockstore.compactor.web.__file__).parent / "static"


def process() -> ShownProcess:
    world = World.real()
    table = small_table(world, "readings", labels={"cluster": "eu1"})
    return ShownProcess(world, status(table_status("readings", url=table.url)), {"readings": table})


def test_the_status_and_the_blocks_of_a_real_table_are_served() -> None:
    shown = process()
    with asking(Starlette(routes=routes(shown))) as client:
        assert client.get("/api/status").json()["tables"][0]["name"] == "readings"
        timeline = client.get("/api/timeline", params={"table": "readings"}).json()
        assert (timeline["count"], timeline["version"]) == (40, 41)
        ulid = timeline["blocks"]["ulid"][0]
        detail = client.get(
            "/api/timeline/block", params={"table": "readings", "ulid": ulid}
        ).json()
        assert detail["meta"]["labels"] == {"cluster": "eu1"}
        assert client.get("/api/timeline", params={"table": "other"}).status_code == 404


def test_a_block_that_the_process_quarantined_is_quarantined_on_the_timeline() -> None:
    shown = process()
    ulid = shown.tables["readings"].log.state.blocks.ulids()[3]
    bad = Quarantined(
        ulid=ulid, reason="its hash differs", since_ms=NOW_MS, command="blockstore repair …"
    )
    shown.change("readings", quarantined=(bad,))
    with asking(Starlette(routes=routes(shown))) as client:
        timeline = client.get("/api/timeline", params={"table": "readings"}).json()
    place = timeline["blocks"]["ulid"].index(ulid)
    assert timeline["states"][timeline["blocks"]["state"][place]] == "quarantined"
    assert timeline["reasons"][timeline["blocks"]["reason"][place]] == "its hash differs"


def test_the_page_draws_the_blocks_of_a_real_table(visit: Visiting) -> None:
    shown = process()
    lost = shown.tables["readings"].log.state.blocks.ulids()[0]
    shown.tables["readings"].bucket.delete([object_key(lost, "chunks/000001.parquet")])
    with asking(Starlette(routes=routes(shown))) as client:
        page = visit(f"{client.base_url}#table=readings&block={lost}").page
        page.locator(".timeline-chart[data-drawn='40']").wait_for()
        text = page.locator("#inspector")
        text.get_by_text("chunks/000001.parquet is missing").wait_for()
        text.get_by_text("cluster=eu1").wait_for()


def test_nothing_can_be_changed_through_the_page() -> None:
    with asking(Starlette(routes=routes(ShownProcess(World.real(), busy())))) as client:
        for path in (
            "/api/status",
            "/api/timeline?table=readings",
            "/api/timeline/block",
            "/",
            "/assets/0/page/page.js",
        ):
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                assert client.request(method, path).status_code == 405, (method, path)


@pytest.mark.parametrize("path", sorted(FILES.glob("*.*")), ids=lambda path: path.name)
def test_the_pages_files_name_no_other_host_and_put_no_markup_in(path: Path) -> None:
    text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    for word in (
        "http://",
        "https://",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert word not in text, word
    if path.suffix == ".html":
        assert not re.search(r"\son[a-z]+=|\sstyle=|<style|<script(?![^>]*\ssrc=)", text)
