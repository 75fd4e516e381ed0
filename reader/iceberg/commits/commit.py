"""A client's commit as one version of a table.

Rules:
- A commit happens once: its batch follows from the table and the id of the client's snapshot, so
  every gateway, and every attempt, has the same one. A commit that is done is answered before its
  files are looked at; they may be gone.
- An epoch of a streaming query happens once, whatever the ids of its snapshots: its batch follows
  from the table, the query and the epoch. A driver that is started again does not know whether it
  was committed, writes its files again and makes another snapshot. An epoch before the last one is
  refused.
- New rows alone are appended, or inserted where the table has a key: whatever was committed since
  the client loaded the table is no reason to refuse them. Where chunks go as well,
  ``operations/exchange.py`` judges what was done to their rows since, or ``rows/exchange.py`` where
  the table has a key.
- The client's files are removed once they are blocks. What it abandons is removed by the compactor,
  if that exports the table; so is a commit that changes nothing, which no version knows: sent
  again, it is judged again.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockstore.bucket.url import without_options
from blockstore.errors import (
    AlreadyExists,
    BlockstoreError,
    Conflict,
    Indeterminate,
    Invalid,
    RowConflict,
    Unavailable,
)
from blockstore.export.iceberg.metadata import table_uuid
from blockstore.format.block import Job
from blockstore.format.identity import Key
from blockstore.format.labels import Labels, check_new_labels
from blockstore.ids import ulid_of
from blockstore.index.batches import STREAM, check_in_order
from blockstore.index.state import State
from blockstore.operations.append import earlier_block
from blockstore.operations.exchange import Exchange, exchange
from blockstore.operations.view import read_at
from blockstore.operations.writer import WriteOptions, Writer
from blockstore.reader.errors import Busy
from blockstore.reader.iceberg.commits.files import Difference, NewFile, difference
from blockstore.reader.iceberg.commits.rows import rows_of
from blockstore.reader.iceberg.commits.wanted import Wanted
from blockstore.reader.jobs.writing import BUFFER_BYTES, access_of
from blockstore.rows.attempts import Said
from blockstore.rows.exchange import exchange_rows
from blockstore.rows.insert import insert
from blockstore.rows.streams import stream_of
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.table import Table

_logger = logging.getLogger(__name__)

KEEP = "keep"
"""The name of an empty file."""
_DAY_MS = 86_400_000
_AT_ONCE = 4
"""So many commits are carried out at once; each needs a few times the memory of its buffer."""


@dataclass(frozen=True, kw_only=True)
class Commits:
    """Carries commits out."""

    scratch: Callable[[], Path]
    """A name for a new file on a local disk."""
    _places: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(_AT_ONCE)
    )

    def commit(
        self, table: Table, wanted: Wanted, document: Callable[[], Mapping[str, Any]]
    ) -> int:
        """Commit; return the version that holds it.

        Args:
            table: A handle of this commit alone, just opened.
            wanted: What the client asks for.
            document: Returns the newest metadata of the table.

        Raises:
            Busy: Too many commits are being carried out.
            Conflict: The table has moved on in a way that the client must look at.
            Invalid: The rows or files cannot be part of the table.
            Unavailable, Indeterminate: As a commit.
        """
        if not self._places.acquire(blocking=False):
            raise Busy(
                f"{_AT_ONCE} commits of other engines are being carried out: try again",
                retry_after_s=1.0,
            )
        try:
            return self._commit(table, wanted, document)
        finally:
            self._places.release()

    def _commit(
        self, table: Table, wanted: Wanted, document: Callable[[], Mapping[str, Any]]
    ) -> int:
        location = without_options(table.bucket.url)
        state = table.log.state
        if table_uuid(location, state.created) != wanted.uuid:
            raise Conflict(
                "the table was dropped and created again since the client loaded it: load it again"
            )
        job = _job(table, wanted)
        done = self._done(table, job)
        if done is not None:
            return done
        if wanted.requires:
            wanted.check(document())
        if wanted.base > state.version:
            raise Invalid(f"the table has no snapshot {wanted.base}: load the table again")
        try:
            found = difference(table.bucket, location, wanted)
            version = self._write(table, wanted.base, found, job)
        except (Conflict, Invalid):
            # Another gateway may have committed the same, and removed its files, meanwhile.
            table.log.poll()
            done = self._done(table, job)
            if done is None:
                raise
            return done
        except Unavailable as error:
            # Another gateway may have been sent the same, and a client takes 503 for a failure.
            raise Indeterminate(f"it is not known whether this was committed: {error}") from error
        if earlier_block(table.log.state, job) is not None:
            _remove(table, found)
        return version

    def _done(self, table: Table, job: Job) -> int | None:
        if table.log.state.forgot(job):
            raise Conflict(
                "the commit is older than what the table remembers of commits: load the table "
                "again, look whether its rows are there, and commit what is missing"
            )
        if job.app.startswith(STREAM):
            check_in_order(table.log.state.batches, job.app, job.batch, table.bucket.url)
            earlier = earlier_block(table.log.state, job)
        else:
            # A client that tries again may keep its snapshot's id and give it another time.
            start = f"{job.app.rpartition('/')[0]}/"
            app = next((one for one in table.log.state.batches if one.startswith(start)), None)
            earlier = None if app is None else earlier_block(table.log.state, Job(app, 0))
        if earlier is None:
            return None
        table.log.confirm()
        return earlier.version or table.log.state.version

    def _write(self, table: Table, base: int, found: Difference, job: Job) -> int:
        definition = table.definition
        by_labels: dict[Labels, list[NewFile]] = {}
        for file in found.added:
            by_labels.setdefault(file.labels, []).append(file)
        for labels in by_labels:
            check_new_labels(dict(labels), definition.schema.names)
        if not found.removed and not found.added:
            return table.log.state.version
        if isinstance(definition.identity, Key):
            if not found.removed:
                return self._insert(table, by_labels, job)
            return self._exchange_rows(table, base, found, by_labels, job)
        if not found.removed and len(by_labels) == 1:
            return self._append(table, *by_labels.popitem(), job)
        if definition.identity is not None and not found.removed:
            raise Invalid(
                f"the commit has rows with {len(by_labels)} sets of labels, and the rows of this "
                "table have ids: insert the rows of each set in a statement of its own"
            )
        if definition.identity is not None:
            raise Invalid(
                "the rows of this table have ids, and a commit that replaces files does not say "
                "which row is which: change rows with SQL at /v1/statements, or append"
            )
        read = _read(table, base, found)
        wanted = Exchange(
            read=read,
            chunks=_chunks(read, found.removed),
            rows={labels: self._rows(table, files) for labels, files in by_labels.items()},
            job=job,
            parameters={"by": "iceberg"},
            buffer_bytes=BUFFER_BYTES,
        )
        committed = exchange(access_of(table), wanted)
        return committed.version or table.log.state.version

    def _insert(self, table: Table, by_labels: Mapping[Labels, list[NewFile]], job: Job) -> int:
        said = Said(job=job, buffer_bytes=BUFFER_BYTES)
        try:
            done = insert(access_of(table), lambda: self._labelled(table, by_labels), said)
        except RowConflict as error:
            if not error.rows:
                raise
            # A Conflict would be tried again, and end the same.
            raise Invalid(
                f"{error}; a commit only inserts here: change rows with SQL at /v1/statements"
            ) from error
        return done.version or table.log.state.version

    def _exchange_rows(
        self,
        table: Table,
        base: int,
        found: Difference,
        by_labels: Mapping[Labels, list[NewFile]],
        job: Job,
    ) -> int:
        rows = {
            stream_of(table.definition, dict(labels)): self._rows(table, files)
            for labels, files in by_labels.items()
        }
        read = _read(table, base, found)
        _chunks(read, found.removed)
        said = Said(job=job, buffer_bytes=BUFFER_BYTES)
        done = exchange_rows(access_of(table), read, found.removed, rows, said)
        return done.version or table.log.state.version

    def _append(self, table: Table, labels: Labels, files: list[NewFile], job: Job) -> int:
        options = WriteOptions(
            job=job, labels=dict(labels), producer="iceberg", buffer_bytes=BUFFER_BYTES
        )
        with Writer(table.bucket, table.world, table.log, table.definition, options) as writer:
            for batch in self._rows(table, files):
                writer.write(batch)
        block = writer.finish()
        return block.version or table.log.state.version

    def _rows(self, table: Table, files: list[NewFile]) -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from rows_of(table.bucket, file, table.definition, self.scratch)

    def _labelled(
        self, table: Table, by_labels: Mapping[Labels, list[NewFile]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all files, with their labels as columns."""
        names = sorted({name for labels in by_labels for name, _ in labels})
        names += sorted(set(table.definition.labels) - set(names))
        for labels, files in by_labels.items():
            values = dict(labels)
            for batch in self._rows(table, files):
                for name in names:
                    column: Any = pa.repeat(pa.scalar(values.get(name), pa.string()), len(batch))
                    batch = batch.append_column(name, column)
                yield batch


def _job(table: Table, wanted: Wanted) -> Job:
    """The batch of a commit. One that is no epoch begins when the client made its snapshot: what
    came before the floor of the table is not taken (index/batches.py)."""
    if wanted.time_ms > table.world.clock.now_ms() + _DAY_MS:
        raise Invalid(
            f"the snapshot's timestamp-ms is {wanted.time_ms}, more than a day in the future: set "
            "the client's clock"
        )
    if wanted.epoch is not None:
        said = f"{wanted.uuid} {wanted.epoch.query}".encode(errors="surrogatepass")
        app = f"{STREAM}iceberg-{hashlib.sha256(said).hexdigest()[:32]}"
        return Job(app, wanted.epoch.number)
    digest = hashlib.sha256(f"{wanted.uuid} {wanted.snapshot}".encode()).digest()
    return Job(f"gateway/iceberg-{digest.hex()[:32]}/input-{ulid_of(wanted.time_ms, digest)}", 0)


def _read(table: Table, base: int, found: Difference) -> State:
    """The version that the rows were computed from. A client may have loaded the table again before
    it commits; the places of its files say what it had loaded when it wrote them."""
    version = min([base, *(file.read for file in found.added)])
    return read_at(access_of(table), version, "commit")


def _chunks(read: State, removed: frozenset[str]) -> dict[str, frozenset[str]]:
    """The removed chunks by their blocks. Where no chunk that shows rows stays, all go. Raises
    Conflict for one that the version does not have."""
    stay: set[str] = set()
    found: dict[str, set[str]] = {}
    named = read.blocks.get_all({key.partition("/")[0] for key in removed})
    of_them = replace(Snapshot.of(read), blocks=read.blocks.of(list(named.values())))
    for chunk in plan_scan(of_them).chunks:
        if chunk.key in removed:
            found.setdefault(chunk.block, set()).add(chunk.file.path)
        else:
            stay.add(chunk.block)
    if sum(map(len, found.values())) < len(removed):
        raise Conflict(
            f"the commit replaces files that are newer than version {read.version}, from which its "
            "rows were computed: load the table again and decide again"
        )
    for ulid in found.keys() - stay:
        found[ulid].update(file.path for file in named[ulid].meta.chunks)
    return {ulid: frozenset(paths) for ulid, paths in found.items()}


def _keep_folders(table: Table, folders: set[str]) -> None:
    """Keep folders of a local disk from going with their last file: another engine may be about to
    create its file there."""
    for folder in sorted(folders):
        try:
            table.bucket.put_if_absent(f"{folder}/{KEEP}", b"")
        except AlreadyExists:
            continue


def _remove(table: Table, found: Difference) -> None:
    """Remove the client's files, whose rows are in blocks now."""
    keys = sorted({*found.objects, *(file.key for file in found.added)})
    folders = {key.rpartition("/")[0] for key in keys}
    # Hadoop puts a checksum next to each file of a folder.
    keys += [f"{folder}/.{name}.crc" for folder, _, name in (key.rpartition("/") for key in keys)]
    try:
        if keys and table.bucket.path_of(keys[0]) is not None:
            _keep_folders(table, folders)
        for first in range(0, len(keys), 1_000):
            table.bucket.delete(keys[first : first + 1_000])
    except BlockstoreError as error:
        _logger.warning("files of a commit to %s stay: %s", table.url, error)
