"""The rows of one of the processes that write an upsert or a merge together; their block is
committed by another (``distributed.py``).

Rules:
- A column ``_deleted`` of the source says which rows are deletions: of these only the key counts.
- An identity occurs once in a process's rows. With ``sequence_by`` the row with the highest value
  counts, null being the lowest; of two highest ones neither does, and that is an error.
- The rows of a merge name the row ids of rows that exist, and a column says what each is.
- ``alone`` is a caller's promise that no other process has a row with one of these identities.
  Without it, a process reports the hashes of all of them, so that the commit can compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, ROW_ID, Identity
from blockstore.format.new_block import WrittenChunks
from blockstore.format.value_text import plain, plain_rows, row_text, value_text
from blockstore.index.touches import MOST
from blockstore.rows.images import Images
from blockstore.rows.last import check_sequence
from blockstore.rows.merge_rules import key_exists, key_moved
from blockstore.rows.numbers import with_numbers
from blockstore.scan.identities import identities

EFFECT = "_blockstore_effect"
"""What a row of a merge is: the number of an ``Effect``."""


class Effect(IntEnum):
    """What a row of a merge is."""

    CHANGED = 0
    """A row that exists: changed or deleted."""
    NEW = 1
    EXISTS = 2
    """One that a clause would insert, and its key exists."""
    MOVED = 3
    """A matched row, with the key that it has; the source would give it another one."""


MOST_COMPARED = 1_000_000
"""The limit of the rows of one process whose hashes travel to the commit: 8 bytes each."""

_HOLD_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one process has written."""

    chunks: WrittenChunks
    hashes: bytes | None
    """Those of its identities, 8 bytes each; None: they are more than are reported."""
    counts: tuple[int, int, int] = (0, 0, 0)
    """How many rows of a merge are new, changed and deleted."""


class PartRows:
    """Turns the rows of one process into those of its chunks; taken once."""

    def __init__(
        self,
        definition: Definition,
        labels: Mapping[str, str],
        *,
        sequence_by: str | None = None,
        alone: bool = False,
        reads: bool = False,
        hold_bytes: int = _HOLD_BYTES,
    ) -> None:
        assert definition.identity is not None, "rows without an identity never change"
        if sequence_by is not None:
            check_sequence(definition.schema, sequence_by)
        self._definition = definition
        self._identity: Identity = definition.identity
        self._images = Images(definition, StreamKey(tuple(sorted(labels.items())), 0))
        self._sequence_by = sequence_by
        self._alone = alone
        self._reads = reads
        self._hold_bytes = hold_bytes
        self.counts = (0, 0, 0)
        """Rows of a merge so far: new, changed and deleted ones."""

    @property
    def extra(self) -> tuple[str, ...]:
        """The reserved columns of its chunks."""
        return self._images.extra

    def take(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as chunks hold them. Raises Invalid, at the latest after the last one, for
        rows that do not fit and for an identity that occurs twice."""
        if self._sequence_by is not None:
            batches = self._last_of_each(batches, self._sequence_by)
        schema = self._definition.schema
        for batch in batches:
            yield from self._split(with_numbers(batch, schema) if self._reads else batch)
            self._check_many()
        self._images.check_once()

    def hashes(self) -> bytes | None:
        """What to report of the identities, once all rows are taken. The commit of a merge compares
        them with what others touched meanwhile; of more than are reported any may be touched."""
        most = MOST_COMPARED if self._reads else MOST
        if self._alone and self._images.named.count > most:
            return None
        return self._images.named.hashes.astype("<u8").tobytes()

    def _check_many(self) -> None:
        if not self._alone and self._images.rows > MOST_COMPARED:
            raise Invalid(
                f"an upsert has {self._images.rows:,} rows in one task, and the keys of at most "
                f"{MOST_COMPARED:,} can be compared with those of other tasks: use "
                "blockstore.spark.upsert, which exchanges rows by key, or more partitions"
            )

    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if DELETED not in batch.schema.names:
            yield self._images.complete(batch)
            return
        deleted = batch.column(DELETED)
        if deleted.null_count:
            row = self._images.rows + pc.index(pc.is_null(deleted), True).as_py()
            raise Invalid(
                f"column {DELETED!r} is null in row {row:,} (counted from 0), expected true or "
                "false: give every row one",
                row=row,
            )
        kept, gone = batch.filter(pc.invert(deleted)), batch.filter(deleted)
        if EFFECT in batch.schema.names:
            self._refuse_effects(batch)
            new = pc.sum(pc.equal(kept.column(EFFECT), Effect.NEW)).as_py() or 0
            before = self.counts
            self.counts = (
                before[0] + new,
                before[1] + kept.num_rows - new,
                before[2] + gone.num_rows,
            )
        own = [name for name in batch.schema.names if name not in (ROW_ID, DELETED, EFFECT)]
        ids = kept.column(ROW_ID) if ROW_ID in batch.schema.names else None
        if kept.num_rows or not batch.num_rows:
            yield self._images.complete(kept.select(own), ids)
        if gone.num_rows:
            yield self._images.tombstones(gone.select(list(self._identity.columns)))

    def _refuse_effects(self, batch: pa.RecordBatch) -> None:
        """Raise RowConflict for a row to insert whose key exists, and Invalid for one that would
        get another key."""
        for effect in (Effect.EXISTS, Effect.MOVED):
            at = pc.index(batch.column(EFFECT), pa.scalar(int(effect), pa.int32())).as_py()
            if at < 0:
                continue
            columns = self._identity.columns
            key = tuple(plain(batch.column(name)[at]) for name in columns)
            raise (key_exists if effect is Effect.EXISTS else key_moved)(columns, key)

    def _last_of_each(self, batches: Iterable[pa.RecordBatch], by: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows that count; holds these, and some more."""
        held: list[pa.RecordBatch] = []
        limit = self._hold_bytes
        for batch in batches:
            held.append(batch)
            if sum(one.nbytes for one in held) > limit:
                held = self._highest(pa.Table.from_batches(held), by).to_batches()
                # As much again may come before the rows are compared again.
                limit = self._hold_bytes + 2 * sum(one.nbytes for one in held)
        if held:
            rows = self._highest(pa.Table.from_batches(held), by)
            self._refuse_two_highest(rows, by)
            yield from rows.to_batches()

    def _highest(self, rows: pa.Table, by: str) -> pa.Table:
        """The rows whose value is the highest of their identity: more than one where two are
        equal."""
        column = rows[by]
        ranks = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
        ranks[pc.is_null(column).to_numpy()] = 0
        codes = self._codes(rows)
        highest = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
        np.maximum.at(highest, codes, ranks)
        return rows.filter(pa.array(ranks == highest[codes])).combine_chunks()

    def _refuse_two_highest(self, rows: pa.Table, by: str) -> None:
        counts = np.bincount(self._codes(rows)) if rows.num_rows else np.zeros(0, np.int64)
        if not len(counts) or counts.max() == 1:
            return
        code = int(counts.argmax())
        at = int(np.flatnonzero(self._codes(rows) == code)[0])
        found = plain_rows(rows.slice(at, 1))[0]
        key = tuple(found[name] for name in self._identity.columns)
        raise Invalid(
            f"the key ({', '.join(self._identity.columns)}) {row_text(key)} has "
            f"{counts[code]} rows with the highest {by!r}, {value_text(found[by])}, and which of "
            "them counts would be a matter of chance: keep one of them"
        )

    def _codes(self, rows: pa.Table) -> np.ndarray:
        """A number for each identity."""
        values = identities([rows[name] for name in self._identity.columns])
        return values.dictionary_encode(null_encoding="encode").indices.to_numpy()
