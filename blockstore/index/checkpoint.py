"""A checkpoint: the state of one version as a Parquet file, so that nobody folds from entry 1.

Rules:
- One row a live block, sorted by ULID; the rest of the state as JSON in the file's metadata. The content is a function
  of the version alone, so any process may write it, with create-if-absent.
- It is written only from a state that a commit's step 5, or a reader's double look, has confirmed (protocol 3.4):
  whoever finds one may rely on it.
- Of the accounted sources it names those that no live block holds; the others stand in the rows.
- Reading it decodes the small columns; the blocks' JSON stays compressed until someone asks for a block.
- A damaged checkpoint is Corrupt, naming it; pages carry checksums. The hint only spares a listing: a stale, missing or
  garbled one costs requests, never correctness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import immutables
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.errors import AlreadyExists, Corrupt, ObjectMissing
from blockstore.format.definition import Definition
from blockstore.format.document import Document, parse
from blockstore.format.features import FORMAT_VERSION, refuse_newer, refuse_unknown
from blockstore.index import ulids
from blockstore.index.batches import AppBatches, Written
from blockstore.index.blocks import Blocks
from blockstore.index.chain import Link
from blockstore.index.commits import Commits, Run
from blockstore.index.entry import epoch_of, link_of, link_to_json
from blockstore.index.rows import BULK, FRAME, Bulk, Rows
from blockstore.index.sources import Sources
from blockstore.index.state import State
from blockstore.names import HINT, checkpoint_key

__all__ = [
    "EVERY",
    "decode_checkpoint",
    "encode_checkpoint",
    "ensure_checkpoint",
    "read_hint",
    "write_checkpoint",
]

EVERY = 64
"""A committer writes a checkpoint after every entry whose id is a multiple of this."""

A = TypeVar("A")

_KEY = b"blockstore"
_DIGEST = b"blockstore.sha256"
_GROUP_ROWS = 16_384
_COMPRESSION = {"compression": "zstd", "compression_level": 1}


def write_checkpoint(bucket: Bucket, state: State) -> None:
    """Make sure that the version has its checkpoint, and point the hint at it. The state must be a confirmed one."""
    if ensure_checkpoint(bucket, state):
        bucket.put(HINT, orjson.dumps({"format": FORMAT_VERSION, "checkpoint": state.version}))


def ensure_checkpoint(bucket: Bucket, state: State) -> bool:
    """The same for a version that need not be a new one: the hint stays. Whether this call wrote it."""
    try:
        bucket.put_if_absent(checkpoint_key(state.version), encode_checkpoint(state))
    except AlreadyExists:
        return False
    return True


def read_hint(bucket: ReadBucket) -> int:
    """The version of the checkpoint that the hint names, or 0: a guess, never authority."""
    try:
        hint = parse(bucket.get(HINT).data, HINT)
        return hint.integer("checkpoint")
    except (ObjectMissing, Corrupt):
        return 0


def encode_checkpoint(state: State) -> bytes:
    """The bytes of the state's checkpoint."""
    sink = pa.BufferOutputStream()
    table = state.blocks.rows().stored()
    options = {
        "use_dictionary": False,
        "write_statistics": False,
        "write_page_checksum": True,
        "store_schema": False,
    }
    with pq.ParquetWriter(sink, table.schema, **options, **_COMPRESSION) as writer:
        writer.write_table(table, row_group_size=_GROUP_ROWS)
        rest = orjson.dumps(_rest(state))
        writer.add_key_value_metadata({_KEY: rest, _DIGEST: hashlib.sha256(rest).hexdigest().encode("ascii")})
    return sink.getvalue().to_pybytes()


def decode_checkpoint(data: bytes, *, version: int, url: str = "") -> State:
    """The state that ``index/checkpoints/<version>.parquet`` holds. Raises Corrupt or NewerFormat, naming it, and its
    table where the ``url`` is given."""
    name = f"checkpoint {version} ({checkpoint_key(version)})" + (f" of {url}" if url else "")
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        frame = file.read(columns=FRAME.names, use_threads=False).combine_chunks()
        rest = _checked_rest(file, name)
        refuse_newer(rest.integer("format", low=1), name)
        if frame.schema.names != FRAME.names or frame.schema.types != FRAME.types:
            raise Corrupt(f"{name} has columns {frame.schema.names}, expected {FRAME.names}")
        rows = Rows(frame, _StoredBulk(file, name))
        _check_sorted(rows, name)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"{name} cannot be read ({error}): restore it from a copy, or delete it if an older one and all "
                      "entries after that are there") from None  # fmt: skip
    if rest.integer("version") != version:
        rest.fail("version", f"{version}, the version in its name")
    return _state(rest, rows, version, name)


def _checked_rest(file: pq.ParquetFile, name: str) -> Document:
    """The JSON of the file's metadata, which no page checksum guards."""
    held = file.metadata.metadata or {}
    data = held.get(_KEY, b"")
    if hashlib.sha256(data).hexdigest().encode("ascii") != held.get(_DIGEST):
        raise Corrupt(
            f"{name} holds {len(data)} bytes of state that do not match their SHA-256: restore it from a copy"
        )
    return parse(data, name)


class _StoredBulk(Bulk):
    """The large columns of a checkpoint, decompressed a row group at a time when asked for."""

    def __init__(self, file: pq.ParquetFile, name: str) -> None:
        self._file = file
        self._name = name
        self._groups: dict[int, pa.Table] = {}

    def take(self, positions: object) -> pa.Table:
        places = np.asarray(positions, dtype=np.int64)
        numbers = np.unique(places // _GROUP_ROWS)
        starts = {int(number): at * _GROUP_ROWS for at, number in enumerate(numbers)}
        near = [starts[int(place) // _GROUP_ROWS] + int(place) % _GROUP_ROWS for place in places]
        return pa.concat_tables([self._group(number) for number in starts]).take(pa.array(near, pa.int64()))

    def all(self) -> pa.Table:
        return self._all

    @cached_property
    def _all(self) -> pa.Table:
        return pa.concat_tables(
            [BULK.empty_table(), *(self._group(number) for number in range(self._file.num_row_groups))]
        )

    def sources(self) -> pa.ChunkedArray:
        field = BULK.field("sources")
        return self._read(
            lambda: self._file.read(columns=[field.name], use_threads=False)[field.name].cast(field.type)
        )

    def _group(self, number: int) -> pa.Table:
        if number not in self._groups:
            self._groups[number] = self._read(
                lambda: self._file.read_row_group(number, columns=BULK.names, use_threads=False).cast(BULK)
            )
        return self._groups[number]

    def _read(self, read: Callable[[], A]) -> A:
        try:
            return read()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Corrupt(f"{self._name} cannot be read ({error}): restore it from a copy") from None


def _check_sorted(rows: Rows, name: str) -> None:
    found = rows.ulids
    if len(found) > 1 and not (found[:-1] < found[1:]).all():
        raise Corrupt(f"{name} is not sorted by ULID, or names a block twice: restore it from a copy")


def _rest(state: State) -> dict[str, object]:
    """The state without its live blocks."""
    window = state.commits.window()
    accounted = state.accounted.array()
    dead = accounted[~ulids.holds(state.blocks.sources(), accounted)]
    return {
        "format": FORMAT_VERSION,
        "version": state.version,
        "time": state.time_ms,
        "commits": {
            "first": window.first,
            "ids": window.text,
            "times": np.diff(window.times, prepend=0).tolist(),
        },
        "accounted": dead.tobytes().decode("ascii"),
        "epochs": {role: list(epoch) for role, epoch in sorted(state.epochs.items())},
        "batches": {app: _batches_to_json(state.batches[app]) for app in sorted(state.batches)},
        "tags": dict(sorted(state.tags.items())),
        "horizon": state.horizon,
        "floor": state.floor,
        "next_row_id": state.next_row_id,
        "table": state.definition.to_json(),
        "requires": list(state.requires),
        **({"last": link_to_json(state.last)} if state.last.chain else {}),
        **({"void": list(state.void)} if state.void else {}),
    }


def _state(rest: Document, rows: Rows, version: int, name: str) -> State:
    requires = rest.texts("requires", ())
    refuse_unknown(requires, name)
    dead = _array(rest.text("accounted", ""), rest, "accounted")
    table = rest.raw("table")
    if not isinstance(table, dict):
        rest.fail("table", "the table's definition")
    epochs, tags, batches = (rest.document(part) for part in ("epochs", "tags", "batches"))
    run = _run(rest.document("commits"), version)
    return State(
        version=version,
        time_ms=rest.integer("time"),
        blocks=Blocks(rows),
        accounted=Sources(lambda: ulids.unique(rows.sources, dead)),
        commits=Commits(run),
        epochs={role: epoch_of(epochs, role) for role in epochs.names()},
        batches=immutables.Map({app: _batches(batches.document(app)) for app in batches.names()}),
        tags={tag: tags.integer(tag, low=1) for tag in tags.names()},
        horizon=rest.ulid("horizon") if rest.has("horizon") else None,
        floor=rest.ulid("floor") if rest.has("floor") else None,
        next_row_id=rest.integer("next_row_id"),
        table=Definition.from_json(table, f"{name}: the table's definition"),
        requires=requires,
        last=link_of(rest, "last") or Link(run.text[-26:]),
        void=_void(rest, version),
    )


def _void(rest: Document, version: int) -> tuple[int, ...]:
    void = tuple(entry for entry in rest.items("void", ()) if isinstance(entry, int))
    if list(void) != sorted(set(void)) or len(void) != len(rest.items("void", ())) or void[-1:] > (version,):
        rest.fail("void", f"ids of entries up to {version}, in their order")
    return void


def _run(commits: Document, version: int) -> Run:
    times = commits.items("times")
    text = commits.text("ids", limit=2**31)
    first = commits.integer("first", low=1)
    if len(text) != 26 * len(times) or first + len(times) != version + 1 or not text.isascii():
        commits.fail("times", f"one for each commit id, up to entry {version}")
    if not all(type(time_ms) is int and 0 <= time_ms < 2**48 for time_ms in times):
        commits.fail("times", "milliseconds that never fall")
    return Run(first, text, np.cumsum(np.array(times, dtype=np.int64)))


def _array(text: str, rest: Document, name: str) -> ulids.UlidArray:
    if not text.isascii() or len(text) % 26:
        rest.fail(name, "ULIDs end to end")
    return np.frombuffer(text.encode("ascii"), dtype=ulids.EMPTY.dtype)


def _batches_to_json(app: AppBatches) -> dict[str, object]:
    return {
        "ranges": [list(one) for one in app.ranges],
        "recent": [[one.batch, one.version, list(one.blocks)] for one in app.recent],
    }


def _batches(app: Document) -> AppBatches:
    ranges: list[tuple[int, int]] = []
    recent: list[Written] = []
    for pair in app.items("ranges"):
        match pair:
            case [int(low), int(high)] if low <= high and (not ranges or ranges[-1][1] < low - 1):
                ranges.append((low, high))
            case _:
                app.fail("ranges", "sorted pairs of batches")
    for item in app.items("recent"):
        match item:
            case [int(batch), int(version), [*blocks]] if all(isinstance(one, str) for one in blocks):
                recent.append(Written(batch, version, tuple(map(str, blocks))))
            case _:
                app.fail("recent", "[batch, version, blocks]")
    if not ranges:
        app.fail("ranges", "at least one")
    return AppBatches(tuple(ranges), tuple(recent))
