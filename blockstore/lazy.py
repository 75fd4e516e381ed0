"""Exports that a package imports at their first use.

A process then loads only what it needs: a query starts in half the time, and ``--help`` without
Arrow. A package lists its exports three times, since type checkers read imports and literals only:
in ``__all__``, in imports under ``TYPE_CHECKING``, and in the table that it hands in here::

    __getattr__ = lazy(__name__, {".table": ("Table", "create", "open")})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, exports: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that exports these names of its modules."""
    modules = {name: module for module, names in exports.items() for name in names}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
