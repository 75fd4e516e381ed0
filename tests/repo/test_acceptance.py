"""The page of what tables whose rows change must do names tests and benches that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "rows-acceptance.md").read_text()
LINES = [
    line
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| what |", "| bad ", "| work |"))
]


@cache
def _named_tests(path: str) -> frozenset[str]:
    """The tests of a file."""
    file = ROOT / path
    if not file.exists():
        return frozenset()
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@cache
def _benches() -> frozenset[str]:
    """The names of all benches; their modules load peers that are not installed here."""
    sources = (path.read_text() for path in (ROOT / "bench" / "cases").glob("*.py"))
    return frozenset(name for text in sources for name in re.findall(r'name="(\w+)",\n', text))


def test_every_promise_of_the_first_table_is_there() -> None:
    numbers = [int(number) for number in re.findall(r"^\| (\d+)\. ", PAGE, flags=re.MULTILINE)]
    assert numbers == list(range(1, 13))
    assert len(LINES) == 12 + 12 + 7


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[2:40])
def test_every_line_names_what_shows_it_and_that_exists(line: str) -> None:
    shown = line.rstrip(" |").rpartition(" | ")[2]
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", shown)
    measured = re.findall(r"`scripts/bench (\w+)`", shown)
    assert shown.count("`") == 2 * (len(named) + len(measured)), "something else is named"
    assert named or measured
    assert [one for one in named if one[1] not in _named_tests(one[0])] == []
    assert [one for one in measured if one not in _benches()] == []
