"""What is made at its first use: exports of packages, and values of objects (``once``).

A process then loads only what it needs: a query starts in half the time, and ``--help`` without
Arrow. A package lists its exports three times, since type checkers read imports and literals only:
in ``__all__``, in imports under ``TYPE_CHECKING``, and in the table that it hands in here::

    __getattr__ = lazy(__name__, {".table": ("Table", "create", "open")})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar

A = TypeVar("A")


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


class once(cached_property[A]):  # noqa: N801 - used like a function
    """A ``cached_property`` that holds no lock while it computes.

    That of Python 3.11 has one lock for all objects of a class. Where a value is computed out of
    what is first read from a store, all tables of a process would wait for one another. Two threads
    may compute the same value; both are equal.
    """

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        assert self.attrname is not None, "it is part of a class"
        held = instance.__dict__
        if self.attrname not in held:
            held[self.attrname] = self.func(instance)
        return held[self.attrname]
