"""A checkpoint: the state of one version as a Parquet file, so that no process folds from entry 1.

Rules:
- One row a live block, sorted by ULID; the rest of the state as JSON in the file's metadata. The
  content is a function of the version alone, so any process may write it, with create-if-absent.
- Of the accounted sources it names those that no live block holds; the others are in the rows.
- Reading it decodes the small columns; the blocks' JSON stays compressed until it is needed as a
  block.
- A checkpoint is believed only once it is proven, by either of two: its bytes fit a name that the
  hint or a later entry gives them (``checkpoint_name.py``), looked at before they are parsed; or,
  decoded completely, the number of its rows and the digest over their content are those of the
  hashed JSON (``content.py``). Those of earlier releases have no digest.
- Of a table that requires ``tree`` it is a root: it has no rows, and names the leaves that hold
  them and the accounted sources (``tree/``).
- Whatever is wrong with a checkpoint is Corrupt, naming it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import immutables
import numpy as np
import orjson
import pyarrow as pa

from blockstore.errors import BlockstoreError, Corrupt
from blockstore.format.definition import Definition
from blockstore.format.document import Document, parse
from blockstore.format.features import FORMAT_VERSION, TREE, refuse_newer, refuse_unknown
from blockstore.index import ulids
from blockstore.index.batches import AppBatches, Written
from blockstore.index.blocks import Blocks
from blockstore.index.chain import Link
from blockstore.index.checkpoint_name import NamedCheckpoint, name_of
from blockstore.index.commit_ids import Commits, Run
from blockstore.index.content import content_of
from blockstore.index.derived import Places
from blockstore.index.dropped import Dropped
from blockstore.index.entry import epoch_of, link_of, link_to_json
from blockstore.index.rows import BULK, FRAME, Bulk, MemoryBulk, Rows
from blockstore.index.sources import Sources
from blockstore.index.state import State
from blockstore.lazy import once
from blockstore.names import checkpoint_key

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from blockstore.index.tree.leaf import Root
    from blockstore.index.tree.loading import Leaves

_KEY = b"blockstore"
_DIGEST = b"blockstore.sha256"
_GROUP_ROWS = 16_384
_GROUPS_KEPT = 8
"""Row groups that stay decompressed: 15 MB each, and 20 ms to make. The blocks of a million are 61
of them."""
_COMPRESSION = {"compression": "zstd", "compression_level": 1}


GetLeaves: TypeAlias = "Callable[[], Leaves]"
"""Returns what gets the leaves of a table: few tables have any."""


def encode_checkpoint(state: State) -> bytes:
    """The bytes of the state's checkpoint, which has all of its blocks."""
    accounted = state.accounted.array()
    dead = accounted[~ulids.holds(state.blocks.sources(), accounted)]
    return _file(state.blocks.rows().stored(), {**_rest(state), "accounted": _text(dead)})


def encode_root(state: State, root: Root) -> bytes:
    """The bytes of the state's checkpoint where its leaves are those of ``root``."""
    assert TREE in state.requires, "an older release must refuse a root by name"
    rest = {**_rest(state), "accounted": "", "tree": root.to_json()}
    return _file(Rows.of(()).stored(), rest)


def _file(table: pa.Table, fields: Mapping[str, object]) -> bytes:
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    options = {
        "use_dictionary": False,
        "write_statistics": False,
        "write_page_checksum": True,
        "store_schema": False,
    }
    with pq.ParquetWriter(sink, table.schema, **options, **_COMPRESSION) as writer:
        writer.write_table(table, row_group_size=_GROUP_ROWS)
        content = content_of(table, [table])
        rest = orjson.dumps({**fields, "blocks": table.num_rows, "content": content})
        writer.add_key_value_metadata(
            {_KEY: rest, _DIGEST: hashlib.sha256(rest).hexdigest().encode("ascii")}
        )
    return sink.getvalue().to_pybytes()


def decode_checkpoint(
    data: bytes,
    *,
    version: int,
    url: str = "",
    names: tuple[NamedCheckpoint, ...] = (),
    leaves: GetLeaves | None = None,
) -> State:
    """The state that ``index/checkpoints/<version>.parquet`` holds. Raises Corrupt or NewerFormat,
    naming it, and its table where the ``url`` is given. ``leaves`` returns what gets
    those of a root: without it none of them is there.

    ``names`` are those that the hint and later entries give this checkpoint. Bytes that fit one are
    not looked at again; others prove themselves by their content, for a repair, a replica or
    another release may write the same state in other bytes, and a hint or an entry may be what is
    damaged.
    """
    import pyarrow.parquet as pq

    name = f"checkpoint {version} ({checkpoint_key(version)})" + (f" of {url}" if url else "")
    fits = bool(names) and name_of(version, data) in names
    with _reading(name):
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        rest = _checked_rest(file, name)
        refuse_newer(rest.integer("format", low=1), name)
        if rest.integer("version") != version:
            rest.fail("version", f"{version}, the version in its name")
        frame = file.read(columns=FRAME.names, use_threads=False).combine_chunks()
        if frame.schema.names != FRAME.names or frame.schema.types != FRAME.types:
            raise Corrupt(f"{name} has columns {frame.schema.names}, expected {FRAME.names}")
        bulk = _StoredBulk(file, name)
        _check_counts(rest, frame, bulk, name)
        if not fits and rest.has("content"):
            if content_of(frame, bulk.groups()) != rest.text("content"):
                raise Corrupt(f"{name} holds rows that do not match their SHA-256")
        elif not fits and names:
            raise Corrupt(
                f"{name} holds {len(data)} bytes that differ from those that the index names"
            )
        rows = Rows(frame, bulk)
        _check_sorted(rows, name)
        return _state(rest, rows, version, name, data, leaves)


def holds_state(stored: State, state: State) -> bool:
    """Whether the state of a checkpoint is the one that the entries up to it produce."""
    if TREE not in state.requires:
        return stored == state
    from blockstore.index.tree.compare import is_same

    return is_same(stored, state)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Whatever a damaged file makes the libraries raise is Corrupt."""
    try:
        yield
    except BlockstoreError:
        raise
    except Exception as error:
        raise Corrupt(f"{name} cannot be read ({type(error).__name__}: {error})") from error


def _checked_rest(file: pq.ParquetFile, name: str) -> Document:
    """The JSON of the file's metadata, which no page checksum guards."""
    held = file.metadata.metadata or {}
    data = held.get(_KEY, b"")
    if hashlib.sha256(data).hexdigest().encode("ascii") != held.get(_DIGEST):
        raise Corrupt(f"{name} holds {len(data)} bytes of state that do not match their SHA-256")
    return parse(data, name)


def _check_counts(rest: Document, frame: pa.Table, bulk: _StoredBulk, name: str) -> None:
    """As many rows everywhere; for a checkpoint of an earlier release the footer's two counts are
    all there is."""
    counts = [
        frame.num_rows,
        *bulk.counts,
        *([rest.integer("blocks")] if rest.has("blocks") else []),
    ]
    if len(set(counts)) > 1:
        raise Corrupt(f"{name} holds {counts[0]} rows and states {max(counts[1:])}")


class _StoredBulk(Bulk):
    """The large columns of a checkpoint, decompressed a row group at a time when requested."""

    def __init__(self, file: pq.ParquetFile, name: str) -> None:
        self._file = file
        self._name = name
        self._groups: dict[int, pa.Table] = {}
        """Those decompressed last; replaced, never changed."""
        count = file.num_row_groups
        sizes = [file.metadata.row_group(number).num_rows for number in range(count)]
        self._starts = np.array([0, *accumulate(sizes)], dtype=np.int64)
        self.counts = (file.metadata.num_rows, sum(sizes))
        """The rows of the file, and of its row groups."""

    def take(self, positions: object) -> pa.Table:
        places = np.asarray(positions, dtype=np.int64)
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        picked = [int(number) for number in np.unique(numbers)]
        groups = [self._group(number) for number in picked]
        at = (
            dict(zip(picked, accumulate([0, *(len(group) for group in groups[:-1])]), strict=True))
            if groups
            else {}
        )
        near = [
            at[number] + place - int(self._starts[number])
            for number, place in zip(numbers.tolist(), places.tolist(), strict=True)
        ]
        return pa.concat_tables([BULK.empty_table(), *groups]).take(pa.array(near, pa.int64()))

    def pieces(self, positions: Places) -> Iterator[tuple[Places, pa.Table]]:
        numbers_of = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(numbers_of).tolist():
            places = positions[numbers_of == number]
            group = self._groups.get(number)
            held = MemoryBulk(self._read(number) if group is None else group)
            for near, rows in held.pieces(places - self._starts[number]):
                yield near + self._starts[number], rows

    def groups(self) -> Iterator[pa.Table]:
        """The columns of ``BULK`` for all rows, a row group after the other, none kept."""
        return map(self._read, range(self._file.num_row_groups))

    def all(self) -> pa.Table:
        return self._all

    @once
    def _all(self) -> pa.Table:
        return pa.concat_tables(
            [
                BULK.empty_table(),
                *(self._group(number) for number in range(self._file.num_row_groups)),
            ]
        )

    def sources(self) -> pa.ChunkedArray:
        field = BULK.field("sources")
        with _reading(self._name):
            return self._file.read(columns=[field.name], use_threads=False)[field.name].cast(
                field.type
            )

    def _group(self, number: int) -> pa.Table:
        known = self._groups
        group = known.get(number)
        if group is None:
            group = self._read(number)
            self._groups = {**dict(list(known.items())[1 - _GROUPS_KEPT :]), number: group}
        return group

    def _read(self, number: int) -> pa.Table:
        with _reading(self._name):
            group = self._file.read_row_group(number, columns=BULK.names, use_threads=False).cast(
                BULK
            )
            if len(group) != self._starts[number + 1] - self._starts[number]:
                raise Corrupt(
                    f"{self._name} holds a group of {len(group)} rows, and its footer states "
                    "another number"
                )
            return group


def _check_sorted(rows: Rows, name: str) -> None:
    found = rows.ulids
    if len(found) > 1 and not (found[:-1] < found[1:]).all():
        raise Corrupt(f"{name} is not sorted by ULID, or names a block twice")


def _rest(state: State) -> dict[str, object]:
    """The state without its live blocks, and with no accounted sources."""
    window = state.commits.window()
    return {
        "format": FORMAT_VERSION,
        "version": state.version,
        "time": state.time_ms,
        "commits": {
            "first": window.first,
            "ids": window.text,
            "times": np.diff(window.times, prepend=0).tolist(),
        },
        "accounted": "",
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
        **({"created": state.created} if state.created > 1 else {}),
        **({"first_row_id": state.first_row_id} if state.first_row_id else {}),
        **({} if state.dropped is None else {"dropped": state.dropped.to_json()}),
    }


def _state(
    rest: Document,
    rows: Rows,
    version: int,
    name: str,
    data: bytes,
    leaves: GetLeaves | None,
) -> State:
    requires = rest.texts("requires", ())
    refuse_unknown(requires, name)
    dead = _array(rest.text("accounted", ""), rest, "accounted")
    accounted = Sources(lambda: ulids.unique(rows.sources, dead))
    if (TREE in requires) != rest.has("tree"):
        rest.fail("tree", f"a tree where the table requires {TREE}, and only there")
    if rest.has("tree"):
        from blockstore.index.tree.open import opened

        if len(rows) or len(dead):
            rest.fail("tree", "all blocks and sources in leaves")
        rows, accounted = opened(
            rest.raw("tree"), version, name, data, None if leaves is None else leaves()
        )
    table = rest.raw("table")
    if not isinstance(table, dict):
        rest.fail("table", "the table's definition")
    epochs, tags, batches = (rest.document(part) for part in ("epochs", "tags", "batches"))
    run = _run(rest.document("commits"), version)
    return State(
        version=version,
        time_ms=rest.integer("time"),
        blocks=Blocks(rows),
        accounted=accounted,
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
        created=rest.integer("created", 1, low=1, high=version),
        first_row_id=rest.integer("first_row_id", 0),
        dropped=Dropped.of(rest),
        void=_void(rest, version),
    )


def _void(rest: Document, version: int) -> tuple[int, ...]:
    void = tuple(entry for entry in rest.items("void", ()) if isinstance(entry, int))
    if (
        list(void) != sorted(set(void))
        or len(void) != len(rest.items("void", ()))
        or void[-1:] > (version,)
    ):
        rest.fail("void", f"ids of entries up to {version}, in order")
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


def _text(array: ulids.UlidArray) -> str:
    return array.tobytes().decode("ascii")


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
            case [int(batch), int(version), [*blocks]] if all(
                isinstance(one, str) for one in blocks
            ):
                recent.append(Written(batch, version, tuple(map(str, blocks))))
            case _:
                app.fail("recent", "[batch, version, blocks]")
    if not ranges:
        app.fail("ranges", "at least one")
    return AppBatches(tuple(ranges), tuple(recent))
