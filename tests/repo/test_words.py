"""Plain words in what people read: messages, log lines and pages (docs/style.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
UNUSUAL = re.compile(
    r"\b(told|untold|tells?|telling|whoever|lies|lay|stands?|stood|nobody|anew|mend(?:s|ed|ing)?|"
    r"seldom|heeds?|lest|thereby|rotten|in vain|ever after|for good|as many as may|"
    r"has not the|knows no|learns? of|beside)\b",
    flags=re.IGNORECASE,
)
"""Words that the list in docs/style.md replaces, as far as a pattern can find them."""
LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LISTS = {"docs/style.md"}
"""Pages that name the words in order to replace them."""
PACKAGES = ("blockstore", "compactor", "reader", "spark")

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "specs" / "README.md")
)


def prose(text: str) -> str:
    """A page without its code: quoted log lines belong to the program."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def messages(source: str) -> Iterator[tuple[int, str]]:
    """The literals of a module that are raised, or handed to a logger, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            said: ast.AST = node.exc
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LOGS
        ):
            said = node
        else:
            continue
        for part in ast.walk(said):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, part.value


@pytest.mark.parametrize("page", [page for page in PAGES if page not in LISTS])
def test_a_page_uses_plain_words(page: str) -> None:
    assert [found[0] for found in UNUSUAL.finditer(prose((ROOT / page).read_text()))] == []


def test_messages_and_log_lines_use_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in messages(path.read_text())
        if UNUSUAL.search(text)
    ]
    assert found == []


def test_the_words_are_found_where_they_are() -> None:
    """The check itself, on a sentence of each kind."""
    source = 'raise Invalid(f"{url} has not the scope")\nlogger.warning("told to nobody")\n'
    assert [text for _, text in messages(source) if UNUSUAL.search(text)] == [
        " has not the scope",
        "told to nobody",
    ]
    assert UNUSUAL.findall(prose("Nobody `lies`.\n```\nanew\n```\n")) == ["Nobody"]
