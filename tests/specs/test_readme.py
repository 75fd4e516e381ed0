"""The page about the models is complete: every action has its function, every invariant its test,
and both exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SPECS = ROOT / "specs"
MODELS = sorted({path.stem for path in SPECS.glob("*.pml")} - {"must"})

ROW = re.compile(r"^\| (\w+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")
FUNCTION = re.compile(r"`((?:blockstore|compactor)[\w.]*):([\w.]+)`")


def rows(title: str) -> list[tuple[str, str, str]]:
    """The table under a heading, without its head."""
    _, _, after = (SPECS / "README.md").read_text().partition(f"## {title}")
    assert after, f"specs/README.md has no heading {title!r}"
    section = after.partition("\n## ")[0]
    return [row for row in ROW.findall(section) if row[0] != "model"]


ACTIONS = rows("Every action, and the function that does it")
INVARIANTS = rows("Every invariant, and the test of the code")


def defined(path: Path) -> set[str]:
    """The functions of a module, and those of its classes with the class before them."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)
            }
            found |= {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def module(name: str) -> Path:
    path = ROOT / Path(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("model", MODELS)
def test_every_action_of_a_model_stands_on_the_page(model: str) -> None:
    text = (SPECS / f"{model}.pml").read_text()
    actions = set(re.findall(r"^(?:proctype|inline) (\w+)", text, re.MULTILINE))
    named = {name for of, action, _ in ACTIONS if of == model for name in NAME.findall(action)}
    assert actions, f"{model}.pml has no action"
    assert actions - named == set()
    labels = set(re.findall(r"^(\w+):", text, re.MULTILINE))
    assert named - actions - labels == set(), "the page names what the model has not"


@pytest.mark.parametrize("model", MODELS)
def test_every_invariant_of_a_model_stands_on_the_page_once(model: str) -> None:
    asserted = set(re.findall(r"MUST\((\w+),", (SPECS / f"{model}.pml").read_text()))
    named = [name for of, cell, _ in INVARIANTS if of == model for name in NAME.findall(cell)]
    assert sorted(named) == sorted(asserted)


def test_every_function_on_the_page_exists() -> None:
    functions = [pair for _, _, cell in ACTIONS for pair in FUNCTION.findall(cell)]
    assert len(functions) > 40
    missing = [f"{where}:{name}" for where, name in functions if name not in defined(module(where))]
    assert missing == []


def test_every_row_says_by_whom_or_why_by_nobody() -> None:
    silent = [
        row for row in ACTIONS if not FUNCTION.search(row[2]) and "the world" not in row[2] + " "
    ]
    assert [row for row in silent if "the invariants" not in row[2]] == []


@pytest.mark.parametrize("row", INVARIANTS, ids=lambda row: f"{row[0]}-{NAME.findall(row[1])[0]}")
def test_the_test_of_an_invariant_exists(row: tuple[str, str, str]) -> None:
    place = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", row[2])
    assert place is not None, row
    assert place[2] in defined(ROOT / place[1])
