"""The documentation draws what is there: verbs, paths, links."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from blockstore.cli import rooms
from blockstore.cli.verbs import VERBS

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MODULES = subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True).split()


@pytest.mark.parametrize("verb", sorted({*VERBS, *rooms.VERBS}))
def test_every_verb_is_in_the_guide(verb: str) -> None:
    guide = (ROOT / "docs" / "guides" / "cli.md").read_text()
    assert re.search(
        rf"`(?:blockstore )?{verb}\b|^blockstore {verb}\b|\b{verb}:", guide, flags=re.MULTILINE
    ), verb


def missing(row: str) -> list[str]:
    """The paths of a row that are not there: from the root, or in the folder of one before it."""
    folders = [ROOT]
    lost = []
    for path in re.findall(r"`([\w/]+(?:\.py|/|\.md))`", row):
        found = next((folder / path for folder in folders if (folder / path).exists()), None)
        if found is None:
            lost.append(path)
        else:
            folders.append(found if found.is_dir() else found.parent)
    return lost


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 40
    assert [(row, lost) for row in rows if (lost := missing(row))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = [
        link.partition("#")[0]
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text())
        if "://" not in link
    ]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_is_there(page: Path) -> None:
    """By its path, or by the end of it."""
    named = set(re.findall(r"`([\w/]+\.py)`", page.read_text()))
    assert [name for name in sorted(named) if not any(_ends(path, name) for path in MODULES)] == []


def _ends(path: str, name: str) -> bool:
    return path == name or path.endswith(f"/{name}")


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_decision_is_listed_by_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text()
    for path in folder.glob("[0-9]*.md"):
        number, _, title = path.read_text().partition("\n")[0].removeprefix("# ").partition(". ")
        assert f"{number}. [{title}]({path.name})" in listed
