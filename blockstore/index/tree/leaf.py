"""A leaf as a root names it: its hash, its generation, and the sums over it.

Rules:
- The generation is the version for whose root the object was written: collection removes only
  objects of generations below the boundary, so none that a root is about to name.
- Roots that follow one another share the objects of the leaves that stay. What a checkpoint writes
  and looks for of a leaf is made once, so it costs little for those in which nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from blockstore.errors import Corrupt
from blockstore.index.tree.sums import (
    BlockSums,
    SourceSums,
    read_block_sums,
    read_source_sums,
)
from blockstore.lazy import once
from blockstore.names import is_ulid, leaf_key

S = TypeVar("S", bound=BlockSums | SourceSums)


@dataclass(frozen=True, kw_only=True)  # without slots: they have no room for what is made once
class Leaf(Generic[S]):
    """One leaf of a root."""

    sha256: str
    generation: int
    sums: S

    @once
    def key(self) -> str:
        """The object's key."""
        return leaf_key(self.sha256, self.generation)

    @once
    def json(self) -> orjson.Fragment:
        """As a root holds it."""
        sums = self.sums
        fields = [self.sha256, self.generation, sums.first, sums.last, *sums.to_json()]
        return orjson.Fragment(orjson.dumps(fields))


AnyLeaf = Leaf[BlockSums] | Leaf[SourceSums]


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The leaves of a version, sorted, and from which root those were taken that were not written
    for it: its own version if none were."""

    version: int
    base: int
    blocks: tuple[Leaf[BlockSums], ...]
    sources: tuple[Leaf[SourceSums], ...]

    @property
    def leaves(self) -> tuple[AnyLeaf, ...]:
        """All leaves."""
        return (*self.blocks, *self.sources)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all leaves."""
        return frozenset(leaf.key for leaf in self.leaves)

    def to_json(self) -> dict[str, object]:
        """As a checkpoint holds it."""
        return {
            "base": self.base,
            "blocks": [leaf.json for leaf in self.blocks],
            "sources": [leaf.json for leaf in self.sources],
        }


def read_root(found: object, version: int, name: str) -> Root:
    """The root in a checkpoint of this version.

    Raises Corrupt where leaves are not in order, or base or a generation is above the version.
    """
    match found:
        case {"base": int(base), "blocks": [*blocks], "sources": [*sources]} if (
            1 <= base <= version
        ):
            return Root(
                version=version,
                base=base,
                blocks=tuple(
                    Leaf(sha256=sha256, generation=at, sums=read_block_sums(first, last, rest))
                    for sha256, at, first, last, rest in _named(blocks, version, name)
                ),
                sources=tuple(
                    Leaf(sha256=sha256, generation=at, sums=read_source_sums(first, last, rest))
                    for sha256, at, first, last, rest in _named(sources, version, name)
                ),
            )
    raise Corrupt(f"{name} has no tree, expected its base, blocks and sources")


def _named(
    leaves: Iterable[Any], version: int, name: str
) -> Iterable[tuple[str, int, str, str, list[Any]]]:
    before = ""
    for leaf in leaves:
        match leaf:
            case [str(sha256), int(generation), str(first), str(last), *rest] if (
                len(sha256) == 64
                and set(sha256) <= set("0123456789abcdef")
                and 1 <= generation <= version
                and is_ulid(first)
                and is_ulid(last)
                and before < first <= last
            ):
                before = last
                yield sha256, generation, first, last, rest
            case _:
                raise Corrupt(f"{name} names a leaf {leaf!r}, expected leaves up to {version}")
