"""Files of a page: only those of its folder, revalidated, with the headers of a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from blockstore.service.pages.responses import STATIC, page_route, static_route
from tests.support.asking import asking


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<!doctype html><title>t</title>")
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "page"
    routes = [page_route("/", folder / "index.html"), static_route("/page", folder), static_route()]
    with asking(Starlette(routes=routes)) as client:
        yield client


def test_the_page_and_the_shared_files_are_served_and_revalidated(client: httpx.Client) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/static/shared/timeline.js", "text/javascript"),
        ("/static/shared/tokens.css", "text/css"),
        ("/static/vendor/chart.js", "text/javascript"),
    ):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["cache-control"] == "no-cache"
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        again = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/page/%2e%2e/secret.txt", "/page/..%2fsecret.txt", "/static/../serving.py", "/page/none"],
)
def test_nothing_outside_the_folder_is_served(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", sorted((STATIC / "shared").iterdir()), ids=lambda path: path.name)
def test_the_pages_own_files_name_no_other_host_and_put_no_markup_in(path: Path) -> None:
    text = path.read_text()
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
