"""Writing a version of a table as a Delta log.

Rules:
- The newest version is one checkpoint, of the version's own number. Objects are written before the
  checkpoint that names them; ``_last_checkpoint``, from which readers begin, comes last.
- Names follow from content or from the version, so an export that ran before, or runs at the same
  time elsewhere, writes the same objects.
"""

from __future__ import annotations

import io
import json
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.url import without_options
from blockstore.errors import Invalid
from blockstore.export.delta.actions import CHECKPOINT, about_file, about_table
from blockstore.export.delta.schema import check_same_columns
from blockstore.export.delta.vectors import vector
from blockstore.export.exported import Exported, Memo, Sink
from blockstore.export.own_id import own_id
from blockstore.export.shown import planned, shown_of
from blockstore.scan.chunk import Positions
from blockstore.table import Table

_FOLDER = "_delta_log"
LOG = f"{_FOLDER}/"
LAST = f"{LOG}_last_checkpoint"


def export_delta(table: Table, memo: Memo | None = None) -> Exported:
    """Write the newest version as a Delta log.

    ``memo`` is of earlier exports of the same table: vectors are not made again.

    Raises:
        Invalid: The table has no index, a column has a type that Delta lacks, or some block has a
            column under another name or as another type than the table by now, or the empty text
            as a label.
    """
    if not table.indexed:
        raise Invalid(f"{table.url} has no index, and only versions of an index are exported")
    view = table.snapshot()
    shown, plan = view.snapshot, planned(view).plan
    assert shown.version is not None
    for schema in {one.schema_id for one in plan.chunks}:
        check_same_columns(shown.definition.schema, plan.schemas[schema])
    sink = Sink(table.bucket, memo or Memo())
    files, deletes = [], 0
    for chunk, positions in shown_of(view.bucket, list(plan.chunks)):
        said = None
        if len(positions):
            said, deletes = _vector(sink, chunk.key, positions), deletes + len(positions)
        files.append(about_file(chunk, plan.schemas[chunk.schema_id], shown.columns.labels, said))
    location = without_options(table.bucket.url)
    own = own_id(f"{table.log.state.created} {location}")
    actions = [*about_table(shown, own, vectors=deletes > 0), *files]
    sink.put(f"{LOG}{shown.version:020}.checkpoint.parquet", _parquet(actions))
    last = {"version": shown.version, "size": len(actions)}
    table.bucket.put(LAST, json.dumps(last).encode())
    return Exported(
        version=shown.version,
        metadata=location,
        files=len(files),
        deletes=deletes,
        objects=frozenset(sink.keys),
        written=sink.written,
    )


def _vector(sink: Sink, path: str, positions: Positions) -> dict[str, Any]:
    """What the log says of the vector of a data file."""

    def make() -> tuple[str, bytes, dict[str, Any]]:
        made = vector(_FOLDER, path, positions)
        return LOG + made.name, made.data, made.said

    return sink.part((path, sha256(positions.tobytes()).digest()), make)


def _parquet(actions: list[dict[str, object]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(actions, CHECKPOINT), out)
    return out.getvalue()
