"""Writing the Iceberg metadata of a version below ``metadata/``.

Rules:
- Objects are written before those that name them; ``version-hint.text``, which some readers look
  at, comes last and is only a hint.
- Names follow from content, so an export that ran before, or runs at the same time elsewhere,
  writes the same objects; those that are there are not written again.
- Manifests hold the chunks of some 1,000 blocks. Where one ends follows from the ULIDs, so that a
  new block changes one of them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from blockstore.errors import Invalid
from blockstore.export.exported import Exported, Memo, Sink
from blockstore.export.iceberg.deletes import delete_file
from blockstore.export.iceberg.manifests import DELETES, DataFile, Manifest, manifest, manifest_list
from blockstore.export.iceberg.metadata import IcebergSnapshot, metadata
from blockstore.export.iceberg.schema import leaves, schema_of
from blockstore.export.iceberg.values import bound
from blockstore.export.shown import planned, shown_of
from blockstore.format.fields import field_id
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table

METADATA = "metadata/"
HINT = f"{METADATA}version-hint.text"
_ENDS, _MOST = 512, 4_096
"""A manifest ends after one block in so many, and has so many chunks at most."""


def export_iceberg(table: Table, memo: Memo | None = None) -> Exported:
    """Write Iceberg metadata for the newest version, and for the versions with tags.

    ``memo`` is of earlier exports of the same table: what has not changed is not made again.

    Raises:
        Invalid: The table has no index, or a column has a type that Iceberg lacks.
    """
    if not table.indexed:
        raise Invalid(f"{table.url} has no index, and only versions of an index are exported")
    sink = Sink(table.bucket, memo or Memo())
    current = table.snapshot()
    tags = {name: table.snapshot(tag=name) for name in sorted(table.log.state.tags)}
    views = (current, *tags.values())
    location = table.bucket.url.partition("?")[0].rstrip("/")
    made = {view.version: _snapshot(view, location, sink) for view in views}
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


def _snapshot(view: TableSnapshot, location: str, sink: Sink) -> IcebergSnapshot:
    shown = view.snapshot
    labels = shown.columns.labels
    assert shown.version is not None
    schema = schema_of(shown.definition.schema, labels, shown.definition.schema_id)
    plan = planned(view)
    parts = _Parts(plan=plan, schema=schema, location=location, sink=sink)
    manifests: list[Manifest] = []
    deleted: list[DataFile] = []
    for group in _groups(plan.chunks):
        listed = []
        for chunk, positions in shown_of(view.bucket, group):
            listed.append(chunk)
            if len(positions):
                deleted.append(parts.deletes(chunk, positions))
        if listed:
            manifests.append(parts.data(listed))
    files, rows = sum(one.files for one in manifests), sum(one.rows for one in manifests)
    if deleted:
        made, data = manifest(deleted, schema, labels, content=DELETES, sequence=shown.version)
        sink.put(METADATA + made.name, data)
        manifests.append(made)
    name, data = manifest_list(manifests, f"{location}/{METADATA.rstrip('/')}", shown.version)
    sink.put(METADATA + name, data)
    return IcebergSnapshot(
        shown=shown,
        manifest_list=f"{location}/{METADATA}{name}",
        files=files,
        rows=rows,
        deletes=sum(one.rows for one in deleted),
    )


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The parts of one snapshot that the next export may need again."""

    plan: ScanPlan
    schema: dict[str, Any]
    location: str
    sink: Sink

    def data(self, chunks: Sequence[ScanChunk]) -> Manifest:
        """The manifest of these chunks."""

        def make() -> tuple[str, bytes, Manifest]:
            files = [_data_file(self.plan, chunk, self.location) for chunk in chunks]
            made, data = manifest(files, self.schema, self.plan.columns.labels)
            return METADATA + made.name, data, made

        return self.sink.part((self._said, tuple(chunk.key for chunk in chunks)), make)

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

    @cached_property
    def _said(self) -> str:
        return json.dumps(self.schema)


def _groups(chunks: Sequence[ScanChunk]) -> Iterator[list[ScanChunk]]:
    group: list[ScanChunk] = []
    block = ""
    for chunk in sorted(chunks, key=lambda one: one.key):
        ended = block != chunk.block and zlib.crc32(block.encode()) % _ENDS == 0
        if group and (ended or len(group) == _MOST):
            yield group
            group = []
        group.append(chunk)
        block = chunk.block
    if group:
        yield group


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
