"""Exports that are imported at their first use."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

PACKAGES = (
    "blockstore",
    "blockstore.format",
    "blockstore.reader.query",
    "blockstore.reader.tables",
    "blockstore.scan",
    "blockstore.spark",
)


def under_type_checking(package: str) -> dict[str, str]:
    """What a package exports to type checkers: name -> module."""
    source = Path(str(importlib.import_module(package).__file__)).read_text()
    checked = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in checked for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_what_type_checkers_see(package: str) -> None:
    loaded = importlib.import_module(package)
    seen = under_type_checking(package)
    assert seen
    assert set(seen) <= set(loaded.__all__)
    for name, module in seen.items():
        assert getattr(loaded, name) is getattr(importlib.import_module(module), name)
        assert vars(loaded)[name] is getattr(loaded, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_another_name_is_no_attribute(package: str) -> None:
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'absent'"):
        _ = importlib.import_module(package).absent
