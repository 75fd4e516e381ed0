"""Files of a page: only those of its folder, kept by browsers as long as they are the same, with
the headers of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from blockstore.service.pages.responses import STATIC, page_routes
from tests.support.asking import asking


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text('<!doctype html><link href="{assets}/page/a.js">')
    (tmp_path / "page" / "a.js").write_text("1;")
    (tmp_path / "secret.txt").write_text("secret")
    with asking(Starlette(routes=page_routes(tmp_path / "page"))) as client:
        yield client


def assets(client: httpx.Client) -> str:
    """The address of the page's files."""
    found = re.search(r'"(/assets/[0-9a-f]{16})/page/a\.js"', client.get("/").text)
    assert found is not None
    return found[1]


SHARED = (
    ("page/a.js", "text/javascript"),
    ("static/shared/timeline.js", "text/javascript"),
    ("static/shared/tokens.css", "text/css"),
    ("static/vendor/chart.js", "text/javascript"),
)


def test_the_page_is_revalidated_and_its_files_are_kept(client: httpx.Client) -> None:
    named = [(f"{assets(client)}/{path}", kind, "immutable") for path, kind in SHARED]
    other = [(f"/assets/another/{path}", kind, "no-cache") for path, kind in SHARED]
    for path, kind, kept in [("/", "text/html", "no-cache"), *named, *other]:
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"].startswith(kind)
        assert kept in answer.headers["cache-control"]
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        again = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert kept in again.headers["cache-control"]


def test_a_file_that_changed_has_another_address(client: httpx.Client, tmp_path: Path) -> None:
    folder, found = tmp_path / "page", {assets(client)}
    for name, text in (("a.js", "2;"), ("b.js", "2;"), ("a.js", "1;")):
        (folder / name).write_text(text)
        with asking(Starlette(routes=page_routes(folder))) as other:
            found.add(assets(other))
    assert len(found) == 4
    (folder / "b.js").unlink()
    with asking(Starlette(routes=page_routes(folder))) as other:
        assert assets(other) == assets(client)


def test_an_upgrade_under_a_running_process_changes_nothing(
    client: httpx.Client, tmp_path: Path
) -> None:
    """A browser keeps what it got under this address for a year: it must be this release's."""
    at = assets(client)
    (tmp_path / "page" / "a.js").write_text("another release;")
    (tmp_path / "page" / "b.js").write_text("a new file;")
    assert client.get(f"{at}/page/a.js").text == "1;"
    assert client.get(f"{at}/page/b.js").status_code == 404
    (tmp_path / "page" / "a.js").unlink()
    assert client.get(f"{at}/page/a.js").text == "1;"
    assert assets(client) == at


@pytest.mark.parametrize(
    "path",
    ["page/%2e%2e/secret.txt", "page/..%2fsecret.txt", "static/../serving.py", "page/none"],
)
@pytest.mark.parametrize("release", ["ours", "other", ".."])
def test_nothing_outside_the_folder_is_served(
    client: httpx.Client, release: str, path: str
) -> None:
    at = assets(client) if release == "ours" else f"/assets/{release}"
    answer = client.get(f"{at}/{path}")
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
