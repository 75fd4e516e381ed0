"""No two modules import each other, directly or by way of others, imports for types included."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent.parent
NAMED_IN = (
    "blockstore/cli/rooms.py",
    "blockstore/simulation/actors/cast.py",
    "reader/serve_verbs.py",
    "reader/statements/calling.py",
)
"""Modules whose text names modules that they load late."""
PUBLIC = {"blockstore.client.dialect", "blockstore.notebook"}
"""Modules that only users import."""


def circles(imports: Mapping[str, Set[str]]) -> list[set[str]]:
    """The groups of modules of which each reaches all others by imports (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for imported in sorted(imports[module]):
            if imported not in number:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], number[imported])
        if lowest[module] == number[module]:
            at = stack.index(module)
            group = set(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for module in sorted(imports):
        if module not in number:
            visit(module)
    return found


def test_a_circle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert circles(imports) == [{"b", "c"}]


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("blockstore", cache_dir=None)
    imports = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    assert len(imports) > 400
    assert circles(imports) == []


def test_no_module_is_left_that_nothing_uses() -> None:
    """Merges of branches have brought deleted modules back, and no other check noticed."""
    graph = grimp.build_graph("blockstore", cache_dir=None)
    unused = {
        one
        for one in graph.modules
        if not graph.find_modules_that_directly_import(one)
        and not graph.find_children(one)
        and not one.startswith("blockstore.cli.verbs.")
    }
    named = "".join((ROOT / path).read_text() for path in NAMED_IN)
    assert {one for one in unused - PUBLIC if f'"{one}"' not in named} == set()
