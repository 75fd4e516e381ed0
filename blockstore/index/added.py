"""A block as an index entry adds it: its meta without schema, and with sources only where the state
does not know them.

Owns the JSON of one item of ``add``: the block's meta as ``format/meta.py`` writes it for an entry,
with
- ``compaction.sources`` where the state does not know them: a list, or for more than 1,000 the
  path, count and SHA-256 of the block's own list file;
- ``committed`` for a block that comes back (restore): the ``version`` and ``first_row_id`` that it
  had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import BlockMeta
from blockstore.format.document import Document
from blockstore.format.meta import from_dict, to_dict
from blockstore.format.sources import INLINE, decode_sources, hash_sources
from blockstore.names import object_key, sources_path


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesFile:
    """What the block's own list of sources must hold."""

    count: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedBlock:
    """One item of an entry's ``add``.

    ``sources`` is None where the state knows them, a SourcesFile where they were not loaded yet,
    else the list; ``meta.sources`` is what the block accounts for once the fold, or the code that
    made the value, has filled it in.
    """

    meta: BlockMeta
    sources: tuple[str, ...] | SourcesFile | None = None
    version: int | None = None
    first_row_id: int | None = None

    @property
    def ulid(self) -> str:
        """The block's ULID."""
        return self.meta.ulid

    def to_json(self) -> dict[str, Any]:
        """The item as JSON holds it."""
        value = to_dict(self.meta)
        if self.sources is not None:
            value["compaction"]["sources"] = _sources_to_json(self.sources)
        if self.version is not None:
            value["committed"] = {"version": self.version, "first_row_id": self.first_row_id}
        return value

    @classmethod
    def from_json(cls, value: object, subject: str) -> AddedBlock:
        """The item that JSON holds.

        Raises Corrupt or NewerFormat; ``subject`` is what the error calls it.
        """
        if not isinstance(value, dict):
            raise Corrupt(f"{subject} is not a JSON object, expected a block")
        item = Document(value, subject)
        block = value
        if "committed" in value:
            block = {name: part for name, part in value.items() if name != "committed"}
        sources = _sources_from_json(item.document("compaction"))
        meta = from_dict(
            block, sources=sources if isinstance(sources, tuple) else None, subject=subject
        )
        if not item.has("committed"):
            return cls(meta=meta, sources=sources)
        committed = item.document("committed")
        return cls(
            meta=meta,
            sources=sources,
            version=committed.integer("version", low=1),
            first_row_id=committed.integer("first_row_id"),
        )

    def with_sources(self, sources: tuple[str, ...]) -> AddedBlock:
        """The same item, its sources loaded from their file."""
        return replace(self, meta=replace(self.meta, sources=sources), sources=sources)

    def loaded(self, read: Callable[[str], bytes | None], subject: str) -> AddedBlock:
        """The item with its sources, which ``read`` gets from the block's list file if the entry
        only names that. Raises Corrupt where the file is not the one that the entry hashed."""
        file = self.sources
        if not isinstance(file, SourcesFile):
            return self
        data = read(object_key(self.ulid, sources_path()))
        if data is None:
            raise Corrupt(f"{subject}: {sources_path()} is missing: restore it from a copy")
        sources = decode_sources(data, subject)
        if len(sources) != file.count or hash_sources(sources) != file.sha256:
            raise Corrupt(
                f"{subject}: {sources_path()} holds {len(sources)} sources that differ from the "
                f"{file.count} that the entry hashed: restore it from a copy"
            )
        try:
            return self.with_sources(sources)
        except Invalid as error:
            raise Corrupt(f"{subject} contradicts itself: {error}") from None


def ulids(fields: Document, name: str) -> tuple[str, ...]:
    """A list of ULIDs, each once; empty where there is none. Raises Corrupt."""
    if not fields.has(name):
        return ()
    found = fields.ulids(name)
    if len(set(found)) != len(found):
        fields.fail(name, "each ULID once")
    return found


def _sources_to_json(sources: tuple[str, ...] | SourcesFile) -> object:
    if isinstance(sources, tuple) and len(sources) <= INLINE:
        return list(sources)
    file = (
        sources
        if isinstance(sources, SourcesFile)
        else SourcesFile(count=len(sources), sha256=hash_sources(sources))
    )
    return {"path": sources_path(), "count": file.count, "sha256": file.sha256}


def _sources_from_json(compaction: Document) -> tuple[str, ...] | SourcesFile | None:
    if not compaction.has("sources"):
        return None
    if isinstance(compaction.raw("sources"), Mapping):
        file = compaction.document("sources")
        file.choice("path", [sources_path()])
        return SourcesFile(count=file.integer("count", low=1), sha256=file.text("sha256", limit=64))
    sources = compaction.ulids("sources")
    if not sources or any(left >= right for left, right in pairwise(sources)):
        compaction.fail("sources", "a sorted list of at least one ULID, without duplicates")
    return sources
