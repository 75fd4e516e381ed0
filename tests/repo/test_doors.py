"""What a module exports is what it says it exports."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import blockstore
from blockstore import errors

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted(
    name if name.startswith("blockstore") else f"blockstore.{name}"
    for package in ("blockstore", "compactor", "reader", "spark")
    for path in (ROOT / package).rglob("*.py")
    if path.read_text().strip()
    for name in [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")]
)


def declared(module: str) -> list[str] | None:
    """The literal ``__all__`` of a module's source, or None."""
    path = ROOT / Path(*module.split("."))
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    if "__all__" not in source:
        return None  # most modules: to parse them all takes seconds
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return list(ast.literal_eval(node.value))
    return None


@pytest.mark.parametrize("module", [module for module in MODULES if declared(module)])
def test_every_exported_name_exists(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in declared(module) or [] if not hasattr(loaded, name)] == []


def test_every_error_of_the_tree_is_at_the_front_door() -> None:
    tree = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert tree == set(errors.__all__)
    assert tree <= set(blockstore.__all__)


def test_the_error_tree_is_drawn_as_it_is() -> None:
    words = {
        word: line.index(word)
        for line in (errors.__doc__ or "").splitlines()
        for word in line.split()[:3]
    }
    for name in errors.__all__:
        depth = inspect.getmro(getattr(errors, name)).index(errors.BlockstoreError)
        assert words.get(name) == 4 * (depth + 1), name
