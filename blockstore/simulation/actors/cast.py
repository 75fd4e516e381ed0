"""Who plays in a run: the foundation's roles, and those that the rooms bring by the entry points
``blockstore.actors``."""

from __future__ import annotations

from importlib.metadata import entry_points

from blockstore.simulation.actors.bunglers import BUNGLER
from blockstore.simulation.actors.editors import EDITOR
from blockstore.simulation.actors.librarians import LIBRARIAN
from blockstore.simulation.actors.readers import HISTORIAN, LISTER, READER
from blockstore.simulation.actors.streams import STREAM
from blockstore.simulation.actors.writers import GROUP, LAPTOP, TWIN, WRITER
from blockstore.simulation.process import Role

__all__ = ["GROUP_OF_ENTRY_POINTS", "cast"]

GROUP_OF_ENTRY_POINTS = "blockstore.actors"
"""Each entry point is a sequence of ``Role``s."""

_OWN = (WRITER, LAPTOP, GROUP, TWIN, STREAM, EDITOR, LIBRARIAN, BUNGLER, READER, LISTER, HISTORIAN)


def cast() -> tuple[Role, ...]:
    """All roles, in an order that is the same everywhere."""
    points = sorted(entry_points(group=GROUP_OF_ENTRY_POINTS), key=lambda point: point.name)
    return (*_OWN, *(role for point in points for role in point.load()))
