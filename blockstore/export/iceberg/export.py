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

from blockstore.errors import Invalid
from blockstore.export.exported import Exported, Sink
from blockstore.export.iceberg.deletes import delete_file
from blockstore.export.iceberg.manifests import DELETES, DataFile, Manifest, manifest, manifest_list
from blockstore.export.iceberg.metadata import IcebergSnapshot, metadata
from blockstore.export.iceberg.schema import leaves, schema_of
from blockstore.export.iceberg.values import bound
from blockstore.export.shown import planned, shown_of
from blockstore.format.fields import field_id
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table

METADATA = "metadata/"
HINT = f"{METADATA}version-hint.text"
_ENDS, _MOST = 512, 4_096
"""A manifest ends after one block in so many, and has so many chunks at most."""


def export_iceberg(table: Table) -> Exported:
    """Write Iceberg metadata for the newest version, and for the versions with tags.

    Raises:
        Invalid: The table has no index, or a column has a type that Iceberg lacks.
    """
    if not table.indexed:
        raise Invalid(f"{table.url} has no index, and only versions of an index are exported")
    sink = Sink(table.bucket)
    current = table.snapshot()
    tags = {name: table.snapshot(tag=name) for name in sorted(table.log.state.tags)}
    location = table.bucket.url.partition("?")[0].rstrip("/")
    made = {view.version: _snapshot(view, location, sink) for view in (current, *tags.values())}
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
    manifests: list[Manifest] = []
    files = rows = 0
    deleted: list[DataFile] = []
    for group in _groups(plan.chunks):
        listed = []
        for chunk, positions in shown_of(view.bucket, group):
            own = _data_file(plan, chunk, location)
            listed.append(own)
            if len(positions):
                name, data = delete_file(own.path, positions)
                sink.put(METADATA + name, data)
                deleted.append(
                    DataFile(
                        path=f"{location}/{METADATA}{name}",
                        rows=len(positions),
                        size=len(data),
                        labels=own.labels,
                        references=own.path,
                    )
                )
        if listed:
            manifests.append(manifest(listed, schema, labels))
            files += len(listed)
            rows += sum(one.rows for one in listed)
    if deleted:
        manifests.append(manifest(deleted, schema, labels, content=DELETES, sequence=shown.version))
    for one in manifests:
        sink.put(METADATA + one.name, one.data)
    name, data = manifest_list(manifests, f"{location}/{METADATA.rstrip('/')}", shown.version)
    sink.put(METADATA + name, data)
    return IcebergSnapshot(
        shown=shown,
        manifest_list=f"{location}/{METADATA}{name}",
        files=files,
        rows=rows,
        deletes=sum(one.rows for one in deleted),
    )


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
