"""Chunks of a version that was read exchanged for rows, where rows have a key: one version.

What an engine commits that rewrites files whole (``operations/exchange.py`` is the same where rows
have no identity). It says which rows there are now; which of them changed follows from the keys.

Rules:
- A key of the chunks that the new rows lack is deleted. A row that is as it was is left as it is:
  an engine that changes one row writes all those around it again.
- A key that the chunks do not have is inserted, and must not exist elsewhere.
- Rows that others changed since the version was read are a RowConflict; rows next to them are not.
- Of each row that goes its key and a hash are held, and of each that comes its key.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.casting import cast_batch
from blockstore.format.identity import Key
from blockstore.format.value_text import plain_keys, row_text
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.attempts import Said, already_done, commit_blocks, record_nothing
from blockstore.rows.reading import by_stream, rows_with
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import StreamChanges
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities, row_texts
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot

_MOST = 20_000_000
"""So many rows go at once, and so many come."""


@dataclass(slots=True)
class _Going:
    """The rows of one stream that go, and the keys of those that come."""

    keys: list[pa.RecordBatch] = field(default_factory=list)
    known: list[pa.Array] = field(default_factory=list)
    """The same keys, one value each (``scan/identities.py``)."""
    images: list[pa.Array] = field(default_factory=list)
    """A hash of each row."""
    came: list[pa.Array] = field(default_factory=list)

    def add(self, rows: pa.RecordBatch, names: Sequence[str]) -> None:
        """Add rows that go."""
        keys = rows.select(list(names))
        self.keys.append(keys)
        self.known.append(identities(keys.columns))
        self.images.append(_images(rows))


def exchange_rows(
    access: Access,
    read: State,
    chunks: frozenset[str],
    rows: Mapping[StreamKey, Iterable[pa.RecordBatch]],
    said: Said,
) -> RowsChanged:
    """Carry it out.

    Args:
        access: The table.
        read: The version that was read.
        chunks: The keys of its chunks that go.
        rows: The new rows by their streams, under the table's columns.
        said: What the caller says of it; its labels do not count.

    Raises:
        Invalid: The rows do not fit, a key occurs twice or exists elsewhere.
        RowConflict: Others changed rows of these chunks since.
        Unavailable, Indeterminate: As a commit.
    """
    operation = Operation.MERGE
    done = already_done(access.log.state, operation, said)
    if done is not None:
        access.log.confirm()
        return done
    identity = read.definition.identity
    assert isinstance(identity, Key), "rows are compared by their key"
    names = identity.columns
    with (
        access.log.own_looks(),
        StreamChanges(
            access,
            read.definition,
            producer=str(operation),
            job=said.job,
            buffer_bytes=said.buffer_bytes,
        ) as changes,
    ):
        going = _going(access, read, chunks, names)
        counts = Counter[str]()
        for stream, batches in rows.items():
            old = going.setdefault(stream, _Going())
            few = _at_most(_MOST - counts.total(), batches)
            counts += _put(access, read, changes, stream, few, old)
        for stream, old in going.items():
            counts["deleted"] += _delete(changes, stream, old, names)
        finished = changes.finish()
    did = RowsChanged(
        operation=str(operation),
        inserted=counts["inserted"],
        updated=counts["updated"],
        deleted=counts["deleted"],
        unchanged=counts["unchanged"],
    )
    if finished is None:
        record_nothing(access, operation, said)
        return did
    blocks, named = finished
    return commit_blocks(
        access, operation, said, read.definition, blocks, named, did, read_version=read.version
    )


def _going(
    access: Access, read: State, chunks: frozenset[str], names: Sequence[str]
) -> dict[StreamKey, _Going]:
    """The rows of the chunks, by their streams."""
    plan = plan_scan(Snapshot.of(read), columns=read.definition.schema.names)
    plan = replace(plan, chunks=tuple(one for one in plan.chunks if one.key in chunks))
    found: dict[StreamKey, _Going] = {}
    count = 0
    for stream, own in by_stream(plan):
        into = found.setdefault(stream, _Going())
        for batch in read_plan(access.bucket, own, access.world, reads=access.reads):
            into.add(batch, names)
            count += len(batch)
            if count > _MOST:
                raise _too_many()
    return found


def _at_most(room: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches. Raises Invalid for more rows than there is room for: the key of each is held."""
    for batch in batches:
        room -= len(batch)
        if room < 0:
            raise _too_many()
        yield batch


def _too_many() -> Invalid:
    return Invalid(
        f"the commit replaces more than {_MOST:,} rows at once, or brings as many in their place, "
        "and each is compared with the one of its key: change fewer rows in one statement"
    )


def _put(
    access: Access,
    read: State,
    changes: StreamChanges,
    stream: StreamKey,
    batches: Iterable[pa.RecordBatch],
    old: _Going,
) -> Counter[str]:
    """Take the new rows of a stream; return how many came, changed, and stay as they were."""
    identity = read.definition.identity
    assert identity is not None
    known = _together(old.known)
    images = _together(old.images)
    counts = Counter[str]()
    first = 0
    for given in batches:
        batch = cast_batch(given, read.definition, first_row=first)
        first += len(batch)
        keys = identities([batch.column(name) for name in identity.columns])
        old.came.append(keys)
        if known is None or images is None:
            places = pa.nulls(len(keys), pa.int32())
            same = pa.repeat(pa.scalar(False), len(keys))
        else:
            places = pc.index_in(keys, value_set=known)
            same = pc.fill_null(pc.equal(_images(batch), images.take(places)), fill_value=False)
        fresh = places.is_null()
        _check_new(access, read, stream, keys.filter(fresh), identity.columns)
        changes.put(stream, batch.filter(pc.invert(same)))
        counts["inserted"] += pc.sum(fresh).as_py() or 0
        counts["unchanged"] += pc.sum(same).as_py() or 0
        counts["updated"] += pc.sum(pc.invert(pc.or_(fresh, same))).as_py() or 0
    came = _together(old.came)
    if came is not None and len(pc.unique(came)) < len(came):
        raise Invalid("a key occurs twice among the rows of the commit, and a key has one row")
    return counts


def _check_new(
    access: Access, read: State, stream: StreamKey, keys: pa.Array, names: Sequence[str]
) -> None:
    """Raise Invalid for a new key that exists."""
    if not len(keys):
        return
    there = rows_with(access, read, names, keys, stream, columns=names).rows
    if len(there):
        raise Invalid(
            f"{len(there):,} of the keys that the commit brings exist already, the first of them "
            f"{row_text(plain_keys(there.slice(0, 1))[0])}: a key has one row"
        )


def _delete(changes: StreamChanges, stream: StreamKey, old: _Going, names: Sequence[str]) -> int:
    """Delete the rows whose keys did not come again; return how many."""
    came = _together(old.came)
    count = 0
    for keys, known in zip(old.keys, old.known, strict=True):
        gone = keys if came is None else keys.filter(pc.invert(pc.is_in(known, value_set=came)))
        if len(gone):
            changes.delete(stream, gone)
            count += len(gone)
    return count


def _images(rows: pa.RecordBatch) -> pa.Array:
    """A hash of each row."""
    texts = row_texts(rows.columns).to_pylist()
    digests = (hashlib.blake2b(text, digest_size=16).digest() for text in texts)
    return pa.array(list(digests), pa.binary(16))


def _together(arrays: Sequence[pa.Array]) -> pa.Array | None:
    return pa.concat_arrays(arrays) if arrays else None
