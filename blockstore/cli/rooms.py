"""The verbs that the rooms bring: found by the entry points ``blockstore.verbs``, loaded when they are used.

The command line knows no room by name. A room whose package or extra is missing costs its own verb only, which
answers with the command that brings it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from blockstore.errors import BlockstoreError, MissingExtra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["is_lean", "load", "names", "only_reads", "sentence"]

GROUP = "blockstore.verbs"


def names() -> tuple[str, ...]:
    """The verbs that installed rooms offer."""
    return tuple(sorted(_points()))


def load(verb: str) -> Callable[..., Any]:
    """The function of a room's verb. Raises MissingExtra if the room cannot be loaded here."""
    point = _points()[verb]
    try:
        function: Callable[..., Any] = point.load()
    except (ImportError, AttributeError) as error:
        raise MissingExtra(_missing(point, error)) from error
    return function


def is_lean(verb: str) -> bool:
    """Whether the verb's module names it in ``LEAN``: it does not use pandas, so pandas need not be loaded."""
    return _is_named(verb, "LEAN")


def only_reads(verb: str) -> bool:
    """Whether the verb's module names it in ``READS``: it changes nothing, so it may be run again for its answer."""
    return _is_named(verb, "READS")


def sentence(verb: str) -> str:
    """The first line of the verb's documentation, or why the verb is not to be had."""
    try:
        documentation = load(verb).__doc__ or ""
    except BlockstoreError as error:
        return f"(not available: {error})"
    return documentation.strip().partition("\n")[0]


def _is_named(verb: str, group: str) -> bool:
    try:
        module = import_module(_points()[verb].module)
    except ImportError:
        return False
    return verb in getattr(module, group, ())


@cache
def _points() -> dict[str, EntryPoint]:
    # Slow to load, and a verb of the foundation needs none of it.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _missing(point: EntryPoint, error: Exception) -> str:
    room = point.module.partition(".")[0]
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and missing.partition(".")[0] not in (room, "blockstore"):
        return f"the verb {point.name} needs {missing}: pip install 'blocklake[{room}]'"
    return (
        f"the verb {point.name} cannot be loaded from {point.value} ({error}): "
        f"pip install --force-reinstall 'blocklake[{room}]'"
    )
