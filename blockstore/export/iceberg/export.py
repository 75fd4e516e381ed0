"""Writing the Iceberg metadata of a version below ``metadata/``.

Rules:
- Objects are written before those that name them; ``version-hint.text``, which some readers look
  at, comes last and is only a hint.
- Names follow from content, so an export that ran before, or runs at the same time elsewhere,
  writes the same objects; those that are there are not written again.
- Manifests hold the chunks of some 500 blocks. Where one ends follows from the ULIDs, so that a new
  block changes one of them.
- Where every row of every block is shown, blocks that the last export has listed are not looked at
  again. Where rows have an identity, or some were taken back, what is hidden of each chunk is found
  first.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from blockstore.bucket.url import without_options
from blockstore.errors import Invalid
from blockstore.export.exported import Exported, Memo, Sink
from blockstore.export.iceberg.deletes import delete_file
from blockstore.export.iceberg.manifests import DELETES, DataFile, Manifest, manifest, manifest_list
from blockstore.export.iceberg.metadata import BRANCH, IcebergSnapshot, metadata
from blockstore.export.iceberg.schema import leaves, table_schema
from blockstore.export.iceberg.values import bound
from blockstore.export.shown import planned, shown_of
from blockstore.format.fields import field_id
from blockstore.index import ulids
from blockstore.index.ulids import UlidArray
from blockstore.lazy import once
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.columns import Columns
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table

_log = logging.getLogger(__name__)

METADATA = "metadata/"
HINT = f"{METADATA}version-hint.text"
_END_BITS, _MOST = 9, 1_024
"""A group of blocks ends after one block in 512, and has so many at most."""
_MOST_CHUNKS = 4_096
"""A manifest lists so many at most."""
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
"""Odd numbers whose bits look random."""


def export_iceberg(table: Table, memo: Memo | None = None) -> Exported:
    """Write Iceberg metadata for the newest version, and for the versions with tags.

    ``memo`` is of earlier exports of the same table: what has not changed is not made again.

    Raises:
        Invalid: The table has no index, or a column has a type that Iceberg lacks.
    """
    if not table.indexed:
        raise Invalid(f"{table.url} has no index, and only versions of an index are exported")
    sink = Sink(table.bucket, memo or Memo())
    # Another thread may poll the handle: the version is read after the tags, so none is newer.
    tagged_as = table.log.poll().tags
    current = table.snapshot()
    tags = {
        name: table.snapshot(version=tagged_as[name])
        for name in sorted(tagged_as)
        if name != BRANCH
    }
    if BRANCH in tagged_as:
        _log.warning(
            "%s: the tag %r is left out of the Iceberg export, where this name is the newest "
            "version: give the version another tag",
            table.url,
            BRANCH,
        )
    views = (current, *tags.values())
    location = without_options(table.bucket.url)
    # The newest version has the labels of all. An engine reads an older one by its own schema, and
    # looks for the column of a partition in the newest one all the same.
    every = {label for view in views for label in view.snapshot.columns.labels}
    labels = {view.version: view.snapshot.columns.labels for view in views}
    labels[current.version] = Columns.of(current.snapshot.definition, every).labels
    made = {view.version: _snapshot(view, labels[view.version], location, sink) for view in views}
    newest = made[current.version]
    tagged = {name: made[view.version] for name, view in tags.items()}
    document = json.dumps(
        metadata(location, table.log.state.created, newest, tagged), indent=1
    ).encode()
    assert current.version is not None
    name = f"{METADATA}v{current.version}-{zlib.crc32(document):08x}.metadata.json"
    sink.put(name, document)
    table.bucket.put(
        HINT, f"{name.removeprefix(METADATA).removesuffix('.metadata.json')}\n".encode()
    )
    return Exported(
        version=current.version,
        metadata=f"{location}/{name}",
        files=newest.files,
        deletes=newest.deletes,
        objects=frozenset(sink.keys),
        written=sink.written,
        document=document,
    )


def _snapshot(
    view: TableSnapshot, labels: tuple[str, ...], location: str, sink: Sink
) -> IcebergSnapshot:
    shown = view.snapshot
    assert shown.version is not None
    schema = table_schema(shown.definition, labels)
    parts = _Parts(view=view, schema=schema, labels=labels, location=location, sink=sink)
    deleted: list[DataFile] = []
    if _shows_whole_blocks(shown):
        names = ulids.from_arrow(shown.blocks.table()["ulid"])
        manifests = [
            one for first, end in _groups(names) for one in parts.of_blocks(names[first:end])
        ]
    else:
        found = planned(view)
        manifests = []
        for group in _by_group(found.plan.chunks):
            listed = []
            for chunk, positions in shown_of(view.bucket, group):
                listed.append(chunk)
                if len(positions):
                    since = found.since(chunk) or shown.version
                    deleted.append(replace(parts.deletes(chunk, positions), sequence=since))
            manifests += parts.of_chunks(found.plan, listed)
    files, rows = sum(one.files for one in manifests), sum(one.rows for one in manifests)
    if deleted:
        made, data = manifest(deleted, schema, labels, content=DELETES)
        sink.put(METADATA + made.name, data)
        manifests.append(made)
    name, data = manifest_list(manifests, f"{location}/{METADATA.rstrip('/')}", shown.version)
    sink.put(METADATA + name, data)
    return IcebergSnapshot(
        shown=shown,
        labels=labels,
        manifest_list=f"{location}/{METADATA}{name}",
        files=files,
        rows=rows,
        deletes=sum(one.rows for one in deleted),
    )


def _shows_whole_blocks(shown: Snapshot) -> bool:
    """Whether every row of every block is shown: what a block lists then follows from its name."""
    excepted = shown.blocks.table()["excepted"]
    whole = excepted.null_count == len(excepted)
    return shown.definition.identity is None and whole and not shown.listed


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The parts of one snapshot that the next export may need again."""

    view: TableSnapshot
    schema: dict[str, Any]
    labels: tuple[str, ...]
    location: str
    sink: Sink

    def of_blocks(self, names: UlidArray) -> list[Manifest]:
        """The manifests of all rows of these blocks."""

        def make() -> list[tuple[str, bytes, Manifest]]:
            shown = self.view.snapshot
            plan = plan_scan(replace(shown, blocks=shown.blocks.only(ulids.to_texts(names))))
            return self._made(plan, sorted(plan.chunks, key=lambda one: one.key))

        return self.sink.parts((self._said, names.tobytes()), make)

    def of_chunks(self, plan: ScanPlan, chunks: Sequence[ScanChunk]) -> list[Manifest]:
        """The manifests of these chunks."""
        keys = tuple(chunk.key for chunk in chunks)
        return self.sink.parts((self._said, keys), lambda: self._made(plan, chunks))

    def _made(
        self, plan: ScanPlan, chunks: Sequence[ScanChunk]
    ) -> list[tuple[str, bytes, Manifest]]:
        made = []
        for first in range(0, len(chunks), _MOST_CHUNKS):
            listed = chunks[first : first + _MOST_CHUNKS]
            files = [_data_file(plan, chunk, self.location) for chunk in listed]
            one, data = manifest(files, self.schema, self.labels)
            made.append((METADATA + one.name, data, one))
        return made

    def deletes(self, chunk: ScanChunk, positions: Positions) -> DataFile:
        """The file that leaves out these positions of a chunk."""
        path = f"{self.location}/{chunk.key}"

        def make() -> tuple[str, bytes, DataFile]:
            name, data = delete_file(path, positions)
            made = DataFile(
                path=f"{self.location}/{METADATA}{name}",
                rows=len(positions),
                size=len(data),
                labels=dict(chunk.stream.labels),
                references=path,
            )
            return METADATA + name, data, made

        return self.sink.part((path, sha256(positions.tobytes()).digest()), make)

    @once
    def _said(self) -> str:
        return json.dumps(self.schema)


def _groups(names: UlidArray) -> Iterator[tuple[int, int]]:
    """Blocks, sorted, in groups whose ends follow from their names: where each begins and ends."""
    first = 0
    for end in [*(np.flatnonzero(_ends(names)) + 1).tolist(), len(names)]:
        for start in range(first, end, _MOST):
            yield start, min(start + _MOST, end)
        first = end


def _ends(names: UlidArray) -> npt.NDArray[np.bool_]:
    """After which blocks a group ends: where the first bits of a hash of the name are zero."""
    letters = names.view(np.uint8).reshape(-1, names.itemsize)
    # All but the first two of 26: those change once in decades.
    words = np.ascontiguousarray(letters[:, 2:]).view("<u8")
    hashes = (words * _MIX).sum(axis=1, dtype=np.uint64)
    return hashes >> np.uint64(64 - _END_BITS) == 0


def _by_group(chunks: Iterable[ScanChunk]) -> Iterator[list[ScanChunk]]:
    """The chunks of each group of blocks."""
    of: dict[str, list[ScanChunk]] = {}
    for chunk in sorted(chunks, key=lambda one: one.key):
        of.setdefault(chunk.block, []).append(chunk)
    listed = list(of.values())
    for first, end in _groups(ulids.from_texts(of)):
        yield [chunk for chunks in listed[first:end] for chunk in chunks]


def _data_file(plan: ScanPlan, chunk: ScanChunk, location: str) -> DataFile:
    schema = plan.schemas[chunk.schema_id]
    now = {own: kind for _, own, kind in leaves(plan.columns.table)}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for column in schema:
        own, stats = field_id(column), chunk.file.columns.get(column.name)
        if own is None or stats is None or own not in now:
            continue
        values[own], nulls[own] = chunk.file.rows, stats.nulls
        if stats.nans:
            nans[own] = stats.nans
        for bounds, stat in ((lower, stats.min), (upper, stats.max)):
            found = bound(column.type, now[own], stat)
            if found is not None:
                bounds[own] = found
    return DataFile(
        path=f"{location}/{chunk.key}",
        rows=chunk.file.rows,
        size=chunk.file.bytes,
        labels=dict(chunk.stream.labels),
        value_counts=values,
        null_counts=nulls,
        nan_counts=nans,
        lower=lower,
        upper=upper,
    )
