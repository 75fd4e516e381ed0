"""One write: rows in, one block out, published in one version.

- A block has rows, or it is not made: a write of nothing says so and leaves nothing.
- Nothing of a write is visible before ``finish``; an error before it leaves only chunks that no
  meta.json lists.
- ``finish`` may be called again after an error that leaves the block's fate open: it continues
  where it stopped, and its rows count once. After an error that lost rows it refuses.
- With ``evolve`` the first rows say which columns and types there are; those that the table lacks
  come with the entry that makes the rows visible (``evolving.py``).
- A block of a table with columns of files is visible by its entry alone: a block that is discovered
  late could name files that were removed.
- A resumed write finishes the same block: what is durable or visible of it already is not written
  again, and chunks of the attempt before it are never overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.errors import BlockCondemned, Indeterminate, Invalid
from blockstore.files.look import FileLook, NoFiles
from blockstore.files.named import columns_with_files
from blockstore.format.block import BlockMeta, Job, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolved_for
from blockstore.format.identity import Key
from blockstore.format.labels import check_new_labels
from blockstore.format.texts import check_text
from blockstore.index.change import Append
from blockstore.index.log import Log
from blockstore.lifecycle.upload import in_time, resume
from blockstore.names import is_ulid
from blockstore.operations.append import NOTHING, AppendedBlock, AppendOf, ByAge, publisher_of
from blockstore.operations.evolving import EvolvingAppend
from blockstore.operations.incoming import batches_of
from blockstore.world import World

MAX_MESSAGE = 10_000
"""Characters of an entry's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How one write is to be done; ``Table.append`` explains each."""

    job: Job | None = None
    labels: Mapping[str, str] | None = None
    resume: str | None = None
    publish: bool = True
    message: str = ""
    evolve: bool = False
    producer: str = "python"
    buffer_bytes: int = 256 * 1024 * 1024
    """Rows of about so many bytes in memory are sorted and become one chunk."""

    def __post_init__(self) -> None:
        if self.resume is not None and not is_ulid(self.resume):
            raise Invalid(
                f"resume is {self.resume!r}, expected the ULID that an Indeterminate append named"
            )
        if self.job is not None and not isinstance(self.job, Job):
            raise Invalid(f"job is {self.job!r}, expected a blockstore.Job(app, batch)")
        check_text("the message", self.message, limit=MAX_MESSAGE)
        if self.job is not None and not self.publish:
            raise Invalid(
                "a write with a job is visible by its index entry only, so publish=False would "
                "lose it"
            )
        if self.evolve and not self.publish:
            raise Invalid(
                "new columns come with the index entry of their rows, so publish=False would lose "
                "them: alter the table first, or publish"
            )


class Writer:
    """Takes the batches of one write. A context manager: leaving it finishes the block, an error in
    it aborts.

    ``block`` is the result, once finished.
    """

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        log: Log | None,
        definition: Definition,
        options: WriteOptions,
    ) -> None:
        self._bucket = bucket
        self._world = world
        self._options = options
        self._publisher = publisher_of(log)
        self._publisher.check_job(options.job, bucket.url)
        if isinstance(definition.identity, Key):
            raise Invalid(
                f"the table at {bucket.url} has the key {', '.join(definition.identity.columns)}, "
                "and an append does not look for rows with the same one: use upsert or insert"
            )
        self._visible_by = self._publisher if options.publish else ByAge()
        if options.labels is not None:
            check_new_labels(options.labels, definition.schema.names)
        self._definition = definition
        self._wanted: Definition | None = None if options.evolve else definition
        """The definition of the rows; None before the first of them, if it may become another."""
        self._failed = False
        self._finished = False
        self._begun_ms = world.clock.now_ms()
        self._meta: BlockMeta | None = None
        """The block, once its chunks are uploaded."""
        self._open: Indeterminate | None = None
        """Why it is not known whether the block is durable."""
        self.block = self._publisher.done_before(options.job, options.resume)
        self._durable = self._durable_before()
        self._ulid = options.resume or world.ids.ulid()
        self._token = world.ids.token() if options.resume else ""
        self._chunks = self._writer(definition)

    @property
    def ulid(self) -> str | None:
        """The block that may be durable; None as long as nothing of this write can be visible."""
        durable = self._durable or self._meta
        return None if durable is None else durable.ulid

    def left_behind(self) -> tuple[str, int]:
        """The block under which this write has uploaded, and the bytes that are there: of a write
        that is over and has no ``ulid``, what no reader sees. One LIST."""
        ulid = self._chunks.ulid
        return ulid, sum(info.size for info in self._bucket.list(f"{ulid}/"))

    def write(self, data: Any) -> None:
        """Take rows: whatever ``Table.append`` takes. After an error the write is over."""
        if self._finished:
            raise Invalid(
                "this write is over, its block is finished: begin another one for more rows"
            )
        if self.block is not None or (self._durable is not None and self._wanted is not None):
            return
        try:
            for batch in batches_of(data):
                if self._wanted is None:
                    self._evolve(batch.schema)
                if self._durable is not None:
                    return
                self._chunks.write(batch)
        except BaseException:
            self._failed = True
            self.abort()
            raise

    def finish(self) -> AppendedBlock:
        """Make the block durable and visible. Called again after Indeterminate or Unavailable it
        continues.

        Raises Invalid after a write that failed: some rows would be missing.
        """
        if self._failed:
            raise Invalid(
                "rows of this write were refused or lost before, so its block would lack them: "
                "write them all again with a new writer"
            )
        self._finished = True
        if self.block is None:
            self.block = self._finish()
        return self.block

    def abort(self) -> None:
        """Forget the write; what was uploaded of it is debris that no reader sees."""
        self._chunks.abort()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.abort()

    def _finish(self) -> AppendedBlock:
        with self._visible_by.own_looks():
            if self._durable is None:
                if self._meta is None:
                    self._meta = self._written()
                if self._meta is None:
                    return NOTHING
                self._durable = self._made_durable(self._meta)
            return self._published(self._durable)

    def _published(self, block: BlockMeta) -> AppendedBlock:
        append: AppendOf = Append
        if self._evolved and self._wanted is not None:
            append = partial(EvolvingAppend, read=self._definition, wanted=self._wanted)
        return self._visible_by.publish(
            self._bucket, self._world, block, self._options.message, append
        )

    @property
    def _evolved(self) -> bool:
        """Whether the rows need another definition than the table's."""
        return self._wanted is not None and self._wanted is not self._definition

    def _evolve(self, rows: pa.Schema) -> None:
        """Take the definition that the first rows need."""
        self._wanted = wanted = evolved_for(self._definition, rows)
        if self._evolved:
            if self._options.labels is not None:
                check_new_labels(self._options.labels, wanted.schema.names)
            self._chunks.abort()
            self._chunks = self._writer(wanted)

    def _writer(self, definition: Definition) -> BlockWriter:
        options = self._options
        files: FileLook | NoFiles | None = NoFiles(definition)
        if self._publisher.by_entry and options.publish:
            files = FileLook.of(self._bucket, self._world, self._ulid, definition)
        return BlockWriter(
            self._bucket,
            self._world,
            self._ulid,
            definition,
            labels=options.labels,
            producer=options.producer,
            job=options.job,
            buffer_bytes=options.buffer_bytes,
            token=self._token,
            accept=None if files is None else files.take,
        )

    def _written(self) -> BlockMeta | None:
        """The block of the rows, its chunks uploaded; None if there are no rows."""
        try:
            written = self._chunks.finish_block()
        except BaseException:
            self._failed = True
            self.abort()
            raise
        if not written.rows:
            return None
        definition = self._wanted or self._definition
        needs_entry = self._evolved or (columns_with_files(definition) and self._options.publish)
        by_entry = self._options.job is not None or (needs_entry and self._publisher.by_entry)
        return self._chunks.describe(
            written,
            visible_by=VisibleBy.INDEX if by_entry else VisibleBy.AGE,
            uploaded_time=self._world.clock.now_ms(),
        )

    def _made_durable(self, meta: BlockMeta) -> BlockMeta:
        """R3, or what is left of it since an earlier call."""
        earlier = self._open
        try:
            if earlier is not None:
                durable = resume(self._bucket, self._world, meta.ulid)
                if durable is not None:
                    return durable
            else:
                meta = self._meta = in_time(self._bucket, self._world, meta, self._begun_ms)
            return self._visible_by.complete(self._bucket, self._world, meta)
        except Indeterminate as error:
            self._open = error
            raise
        except BlockCondemned:
            if self._publisher.is_accounted(meta.sources):
                return meta
            if earlier is None:
                self._failed = True
                raise
            # A copy of the rows may be in the bucket: if they were called lost, they would be
            # written twice.
            raise earlier from None

    def _durable_before(self) -> BlockMeta | None:
        ulid = self._options.resume
        return (
            None
            if ulid is None or self.block is not None
            else resume(self._bucket, self._world, ulid)
        )
