"""Merge engines by their names: the local one, and those that other packages offer by entry point.

An engine of the group ``blockstore.merge_engines`` is a function that is called with ``Pieces``,
the compactor's part of a merge, and answers a ``MergeEngine``. So it needs to import nothing of the
compactor, nor the compactor of it.

An engine may also do the merges of a whole pass side by side (``MergesTogether``).
"""

from __future__ import annotations

from importlib.metadata import entry_points

from blockstore.compactor.merge.engine import MergeEngine
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.pieces import Pieces
from blockstore.errors import Invalid, MissingExtra

GROUP = "blockstore.merge_engines"
LOCAL = "local"


def engine_names() -> tuple[str, ...]:
    """The names of all engines that are installed."""
    return (LOCAL, *sorted(found.name for found in entry_points(group=GROUP)))


def engine_named(name: str) -> MergeEngine:
    """The engine of this name.

    Raises Invalid for one that there is not, MissingExtra where its package is missing.
    """
    if name == LOCAL:
        return LocalEngine()
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        raise Invalid(f"engine is {name!r}, expected one of {', '.join(map(repr, engine_names()))}")
    try:
        make = found.load()
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the merge engine {name!r} needs {error.name}, which is not installed: pip install "
            f"'blocklake[{name}]'"
        ) from error
    engine: MergeEngine = make(Pieces())
    return engine
