"""The documentation site: it builds without a warning, holds what the program has, and loads
nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import blockstore
from blockstore.cli import rooms
from blockstore.cli.verbs import VERBS

pytestmark = pytest.mark.xdist_group("site")

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A strict build: a broken link or anchor, or a page without a place, is an error."""
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [ROOT / "scripts" / "docs", "--site-dir", built],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Documentation built" in done.stderr, "a quiet build counts no warning"
    return built


@pytest.mark.parametrize("link", ["no-such-page.md", "index.md#no-such-heading"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n[a link]({link})\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
        "docs_dir: docs\nnav: [index.md]\nhooks: []\nplugins: [search]\nextra_css: []\n"
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert link in done.stderr


class Loaded(HTMLParser):
    """What a page makes a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.urls.append(values.get("src") or "")
        if tag == "link" and values.get("rel") != "canonical":
            self.urls.append(values.get("href") or "")


def test_every_heading_of_a_page_is_a_heading_of_the_site(site: Path) -> None:
    """A block that the site does not recognize swallows the headings after it."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        headings = re.findall(r"^#{1,4} ", text, flags=re.MULTILINE)
        built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        if built.name == "README.html":
            built = built.with_name("index.html")
        shown = re.findall(r"<h[1-6] id=", built.read_text())
        assert len(shown) >= len(headings), page


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text()
    named = set(re.findall(r'id="blockstore\.(?:[a-z_]+\.)*(\w+)"', page))
    assert sorted(set(blockstore.__all__) - named) == []


def test_every_verb_and_route_is_in_the_reference(site: Path) -> None:
    commands = (site / "reference" / "cli.html").read_text()
    assert [verb for verb in (*VERBS, *rooms.VERBS) if f'<h2 id="{verb}">' not in commands] == []
    assert "blockstore create --schema" in re.sub(r"<[^>]*>", "", commands)
    routes = (site / "reference" / "http.html").read_text()
    for route in ("POST /v1/query", "POST /v1/jobs", "GET /v1/tables"):
        assert f"<code>{route}</code>" in routes


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    foreign = {}
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text())
        foreign[page.name] = [url for url in loaded.urls if "//" in url]
    assert {name: urls for name, urls in foreign.items() if urls} == {}
    styles = "".join(path.read_text() for path in (site / "assets").rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//", styles) == []
