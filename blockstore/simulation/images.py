"""Rows that have an identity, and what a reader must see of their versions.

An identity is a number: the row id, or the value of the key. An ``Image`` is all that a row holds;
None in its place is a deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from blockstore.simulation.violation import Violation

KEYS = 14
"""Keys are below this number: so few that most changes meet others."""


class Image(NamedTuple):
    """What a row holds."""

    at_ms: int
    write: int
    row: int
    key: int
    cell: int | None = None


class Row(NamedTuple):
    """A current row."""

    version: int
    image: Image


class Held(NamedTuple):
    """A version of a row as a block holds it; ``image`` is None where it is a tombstone."""

    identity: int
    version: int
    image: Image | None


def visible(blocks: Iterable[tuple[bool, Iterable[Held]]]) -> dict[int, Row]:
    """What a reader must see of blocks, each with whether it holds changes: of each row the newest
    version, and only changes hide others. Raises Violation for a row that is seen twice."""
    blocks = [(changes, tuple(held)) for changes, held in blocks]
    top: dict[int, int] = {}
    for changes, held in blocks:
        for one in held if changes else ():
            top[one.identity] = max(one.version, top.get(one.identity, 0))
    found: dict[int, Row] = {}
    for _, held in blocks:
        for identity, version, image in held:
            if image is None or version < top.get(identity, 0):
                continue
            if identity in found:
                raise Violation(
                    f"row {identity} is current in versions {found[identity].version} and {version}"
                )
            found[identity] = Row(version, image)
    return found
