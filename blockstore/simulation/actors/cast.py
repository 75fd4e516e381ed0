"""The roles of a run: the foundation's roles, and the compactor, which is loaded by name."""

from __future__ import annotations

from blockstore.extras import load
from blockstore.simulation.actors.bunglers import BUNGLER
from blockstore.simulation.actors.changers import CHANGER
from blockstore.simulation.actors.editors import EDITOR
from blockstore.simulation.actors.fetchers import FETCHER
from blockstore.simulation.actors.librarians import LIBRARIAN
from blockstore.simulation.actors.readers import HISTORIAN, LISTER, READER
from blockstore.simulation.actors.streams import STREAM
from blockstore.simulation.actors.writers import GROUP, LAPTOP, TWIN, WRITER
from blockstore.simulation.process import Role

_OWN = (
    *(WRITER, LAPTOP, GROUP, TWIN, STREAM, EDITOR, CHANGER),
    *(LIBRARIAN, BUNGLER, READER, LISTER, HISTORIAN, FETCHER),
)


def cast() -> tuple[Role, ...]:
    """All roles, in an order that is the same everywhere."""
    return (*_OWN, *load("blockstore.compactor.simulated", "ROLES", "the simulation"))
