"""Chunks of a version that was read exchanged for new rows: one index entry.

What an engine commits that rewrites files whole, because it knows nothing of blocks.

Rules:
- The rows of these chunks go, wherever they are by now. A block that was merged or rewritten since
  holds them in another block; from that one the sources of the block go, if all its chunks were
  named. If only some were, the operation conflicts: which of its rows they were is not known there.
- What others deleted, replaced or left out of these blocks since is a Conflict: the new rows were
  computed from rows that are gone.
- What others appended since follows the operation, and so do rows that they brought otherwise.
  Where the table is ``serializable`` all of them conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from blockstore.errors import BlockCondemned, Conflict, VersionExpired
from blockstore.format.block import BlockMeta, Job
from blockstore.format.casting import cast_batch
from blockstore.format.definition import Definition
from blockstore.format.labels import Labels
from blockstore.format.properties import Isolation
from blockstore.index.change import Committed
from blockstore.index.entry import Entry, Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.rules import batch_done
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.fresh_by_labels import FreshByLabels
from blockstore.operations.kept_rows import Rewriter
from blockstore.operations.matching import Fate
from blockstore.operations.new_rows import BUFFER_BYTES
from blockstore.operations.replacement import Replace
from blockstore.operations.scope import Scope
from blockstore.operations.staging import RENEWALS, renewed, uploading
from blockstore.predicate import Predicate, parse
from blockstore.scan.columns import Columns

_PLANS = 12
"""So often it is planned before the table is said to change too fast."""
_KEEP_ROWS = frozenset({Operation.COMPACT, Operation.REWRITE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What is exchanged for what."""

    read: State
    """The version that was read."""
    chunks: Mapping[str, frozenset[str]]
    """The paths of the chunks that go, by the block that has them in that version."""
    rows: Mapping[Labels, Iterable[pa.RecordBatch]]
    """The new rows, under the table's columns, by their labels."""
    job: Job | None = None
    message: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    buffer_bytes: int = BUFFER_BYTES


def exchange(access: Access, wanted: Exchange) -> Committed:
    """Carry it out. Raises Conflict where others took rows of these chunks, Invalid for rows that
    do not fit; then nothing of it is visible."""
    operation = Operation.OVERWRITE
    definition = access.log.state.definition
    fresh = FreshByLabels(
        access,
        definition,
        job=wanted.job,
        producer=str(operation),
        buffer_bytes=wanted.buffer_bytes,
    )
    with uploading(str(operation)), fresh.writing() as put:
        for labels, rows in sorted(wanted.rows.items()):
            for batch in _cast(rows, definition):
                put(labels, batch)
    writing = _Writing(access=access, wanted=wanted, fresh=fresh)
    problem: Conflict | None = None
    renewals = 0
    for _ in range(_PLANS):
        state = access.log.poll()
        done = batch_done(state, wanted.job, ordered=True)
        if done is not None:
            access.log.confirm()
            return Committed(version=done.version, already=True)
        try:
            return access.log.commit(writing.change(state))
        except BlockCondemned as error:
            renewals += 1
            if renewals > RENEWALS:
                raise
            writing.renew(access.log.state)
            problem = error
        except Conflict as error:
            if access.log.poll().version == state.version:
                raise
            problem = error
    raise Conflict(
        f"this commit was planned {_PLANS} times, and each time another process was faster; "
        f"nothing of it was applied, try again: {problem}"
    )


def _cast(rows: Iterable[pa.RecordBatch], definition: Definition) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in rows:
        yield cast_batch(batch, definition, first_row=first)
        first += len(batch)


@dataclass(kw_only=True)
class _Writing:
    """One exchange on its way; a plan that is made again uses what was written before."""

    access: Access
    wanted: Exchange
    fresh: FreshByLabels
    _rewrites: dict[tuple[str, frozenset[str], frozenset[str]], BlockMeta | None] = field(
        default_factory=dict
    )
    """What was written for a block: by its exceptions, and by the chunks or sources that go."""
    _places: _Places | None = None

    def change(self, state: State) -> Replace:
        """What the index is asked for, on top of a state. Raises Conflict."""
        if self._places is None:
            self._places = _Places(self.wanted)
        self._places.follow(self.access, state)
        gone: dict[str, LiveBlock] = {}
        made: dict[str, BlockMeta | None] = {}
        with uploading(str(Operation.OVERWRITE)):
            for ulid, originals in self._places.now().items():
                block = state.blocks.get(ulid)
                if block is None:
                    raise Conflict(f"block {ulid} is not live any more: read the table again")
                gone[ulid] = block
                made[ulid] = self._rewritten(state, block, originals)
            whole = [block.meta for ulid, block in gone.items() if made[ulid] is None]
            own = self.fresh.blocks(whole)
        isolation = self.wanted.read.definition.properties.isolation
        return Replace(
            operation=Operation.OVERWRITE,
            commit=self._commit,
            read=state,
            add=tuple(meta for meta in (*own, *made.values()) if meta is not None),
            gone={ulid: block.excepted for ulid, block in gone.items()},
            scope=Scope(what="commit", predicate=Predicate(), isolation=isolation)
            if isolation is Isolation.SERIALIZABLE
            else None,
            job=self.wanted.job,
            parameters=self.wanted.parameters,
            message=self.wanted.message,
            begun=self.wanted.read.version,
        )

    def renew(self, state: State) -> None:
        """Upload again what the horizon has passed."""
        with uploading(str(Operation.OVERWRITE)):
            for key, meta in self._rewrites.items():
                self._rewrites[key] = meta and renewed(self.access, state, meta)
            self.fresh.renew(state)

    def __post_init__(self) -> None:
        self._commit = self.access.world.ids.ulid()

    def _rewritten(
        self, state: State, block: LiveBlock, originals: Sequence[LiveBlock]
    ) -> BlockMeta | None:
        """The block without what goes, durable; None if nothing of it stays."""
        if [one.ulid for one in originals] == [block.ulid]:
            parts = self.wanted.chunks[block.ulid]
            if parts >= {file.path for file in block.meta.chunks}:
                return None
            fates = {
                file.path: Fate.DROP if file.path in parts else Fate.KEEP
                for file in block.meta.chunks
            }
            predicate = Predicate()
        else:
            parts = frozenset(
                source for one in originals for source in set(one.meta.sources) - one.excepted
            )
            if parts >= set(block.meta.sources) - block.excepted:
                return None
            fates = dict.fromkeys((file.path for file in block.meta.chunks), Fate.FILTER)
            predicate = _of_sources(state, parts)
        key = (block.ulid, block.excepted, parts)
        if key not in self._rewrites:
            rewriter = Rewriter(access=self.access, state=state, producer=str(Operation.OVERWRITE))
            self._rewrites[key] = rewriter.without(block, fates, predicate)
        return self._rewrites[key]


class _Places:
    """Where the rows of the named blocks are, followed through the entries since they were read."""

    def __init__(self, wanted: Exchange) -> None:
        self._wanted = wanted
        isolation = wanted.read.definition.properties.isolation
        self._scope = Scope(what="commit", predicate=Predicate(), isolation=isolation)
        self._seen = wanted.read.version
        self._of = {ulid: ulid for ulid in wanted.chunks}
        """The block that holds the rows of each named one now."""

    def follow(self, access: Access, state: State) -> None:
        """Look at the entries up to a state. Raises Conflict."""
        if state.version <= self._seen:
            return
        try:
            for entry in access.log.entries(self._seen + 1, state.version):
                self._take(entry, state.definition)
        except VersionExpired as error:
            raise Conflict(
                f"version {self._wanted.read.version}, which this commit has read, is older than "
                f"what the table remembers ({error}): read the table again"
            ) from error
        self._seen = state.version

    def now(self) -> dict[str, list[LiveBlock]]:
        """The blocks of now that hold such rows, each with the named ones whose rows it holds."""
        found: dict[str, list[LiveBlock]] = {}
        for original, ulid in sorted(self._of.items()):
            block = self._wanted.read.blocks.get(original)
            assert block is not None, "only live blocks of the version are named"
            found.setdefault(ulid, []).append(block)
        return found

    def _take(self, entry: Entry, definition: Definition) -> None:
        if self._scope.isolation is Isolation.SERIALIZABLE:
            self._scope.check_entry(entry, definition, self._wanted.read.version)
        touched = {*entry.remove, *entry.excepts}
        for original, ulid in self._of.items():
            if ulid not in touched:
                continue
            if entry.operation not in _KEEP_ROWS or ulid in entry.excepts:
                raise Conflict(
                    f"version {entry.id} ({entry.operation}) changed rows of block {ulid} after "
                    f"version {self._wanted.read.version}, which this commit has read: read the "
                    "table again and decide again"
                )
            self._of[original] = self._heir(entry, original, ulid)

    def _heir(self, entry: Entry, original: str, ulid: str) -> str:
        block = self._wanted.read.blocks.get(original)
        heirs = [
            added.ulid
            for added in entry.add
            if any(parent.ulid == ulid for parent in added.meta.parents)
        ]
        whole = block is not None and self._wanted.chunks[original] >= {
            file.path for file in block.meta.chunks
        }
        if len(heirs) != 1 or not whole:
            raise Conflict(
                f"version {entry.id} ({entry.operation}) has put another block in the place of "
                f"{ulid}, and which of its rows this commit replaces is not known there: read the "
                "table again and decide again"
            )
        return heirs[0]


def _of_sources(state: State, sources: frozenset[str]) -> Predicate:
    listed = ", ".join(f"'{source}'" for source in sorted(sources))
    return parse(f"_source IN ({listed})", Columns.of(state.definition, ()).all)


def _labels(meta: BlockMeta) -> Labels:
    return tuple(sorted(meta.labels.items()))
