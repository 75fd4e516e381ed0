"""Sights for the tests of cleaning: directories in a word each, ages in days."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from blockstore.bucket.api import ObjectInfo
from blockstore.format.block import BlockMeta, ChunkFile, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.index.blocks import Blocks
from blockstore.index.reachable import Named
from blockstore.index.rows import LiveBlock
from blockstore.index.sources import Sources
from blockstore.index.state import State
from blockstore.lifecycle.listing import Directory, Found, Listing
from blockstore.lifecycle.sight import Sight
from blockstore.names import DELETION_MARK, META, object_key
from tests.blockstore.lifecycle.blocks import START_MS, block, ulid

DAY_MS = 86_400_000
NOW_MS = START_MS + 20 * DAY_MS
DEFINITION = Definition.create(pa.schema([("n", pa.int64())]))
CHUNK = ChunkFile(path="chunks/000001.parquet", bytes=4, rows=1, sha256="0" * 64)


@dataclass(frozen=True, kw_only=True)
class Dir:
    """A directory: its number, and what is special about it. Every age is in days before now."""

    number: int
    sources: frozenset[int] | None = None
    age: float = 10
    meta_age: float | None = None
    has_meta: bool = True
    has_chunk: bool = True
    garbage: bool = False
    mark: MarkReason | None = None
    mark_age: float = 5
    revision: int = 0
    visible_by: VisibleBy = VisibleBy.AGE
    ignore_delay: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    schema: bytes = b""

    @property
    def born_ms(self) -> int:
        return NOW_MS - int(self.age * DAY_MS)

    @property
    def ulid(self) -> str:
        return ulid(self.number, time_ms=START_MS)

    def meta(self) -> BlockMeta:
        made = block(
            self.number,
            None if self.sources is None else set(self.sources),
            revision=self.revision,
            visible_by=self.visible_by,
            ignore_delay=self.ignore_delay,
            labels=dict(self.labels),
            files=(CHUNK,),
        )
        return replace(made, uploaded_time=min(self.born_ms, NOW_MS), schema=self.schema)

    def found(self) -> Found:
        objects: dict[str, int] = {}
        if self.has_chunk:
            objects[CHUNK.path] = self.born_ms
        if self.has_meta:
            objects[META] = (
                self.born_ms if self.meta_age is None else NOW_MS - int(self.meta_age * DAY_MS)
            )
        if self.mark is not None:
            objects[DELETION_MARK] = NOW_MS - int(self.mark_age * DAY_MS)
        listed = {
            path: ObjectInfo(key=object_key(self.ulid, path), size=4, modified_ms=at)
            for path, at in objects.items()
        }
        damage = None
        if self.has_meta and self.garbage:
            damage = "meta.json is garbage"
        elif self.has_meta and not self.has_chunk:
            damage = f"{CHUNK.path} is missing"
        return Found(
            directory=Directory(ulid=self.ulid, objects=listed),
            meta=self.meta() if self.has_meta and not self.garbage else None,
            damage=damage,
            mark=self.mark,
        )


def sight(
    dirs: Iterable[Dir], named: Named | None = None, properties: Properties | None = None
) -> Sight:
    """The sight of these directories; with an index those that are live and unmarked are not looked
    at."""
    found = {one.ulid: one.found() for one in dirs}
    listing = Listing(
        directories={name: one.directory for name, one in sorted(found.items())}, now_ms=NOW_MS
    )
    if named is not None:
        found = {
            name: one
            for name, one in found.items()
            if one.mark is not None or name not in named.state.blocks
        }
    return Sight(listing=listing, found=found, properties=properties or Properties(), named=named)


def index(
    *,
    live: Iterable[Dir] = (),
    accounted: Iterable[int] = (),
    removed: Mapping[int, int] | None = None,
    boundary: int = 10,
    version: int = 20,
    horizon: int | None = None,
    floor: int | None = None,
) -> Named:
    """An index of these live blocks; ``removed`` are blocks and the entries that removed them."""
    metas = [one.meta() for one in live]
    held = {source for meta in metas for source in meta.sources} | {
        ulid(number) for number in accounted
    }
    state = State(
        version=version,
        blocks=Blocks.of(LiveBlock(meta=meta, version=1, first_row_id=0) for meta in metas),
        accounted=Sources.of(held),
        horizon=None if horizon is None else ulid(horizon),
        floor=None if floor is None else ulid(floor),
        table=DEFINITION,
    )
    return Named(
        boundary=boundary,
        state=state,
        removed={ulid(number): entry for number, entry in (removed or {}).items()},
    )
