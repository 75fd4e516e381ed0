"""Check a complete table: the order of the checks, and what is kept in memory between them.

Rules:
- The listing comes first, then the index. A block that an entry names and the listing lacks is
  listed again before it is reported: it may be younger than the listing.
- Blocks that only tags and older versions above the boundary name are checked like the blocks of
  the newest version.
- Directories are read in parallel, some hundred at a time. Only a digest is kept of a live block,
  and the meta without statistics of any other, because the exact cover (3.2) needs all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from blockstore.bucket.api import ReadBucket
from blockstore.care.examine import Examined, examine, list_directory
from blockstore.care.finding import Check, Finding, Report, Severity
from blockstore.care.marks.quarantine import check_quarantined, quarantined_as
from blockstore.care.survey import Survey, slim, survey
from blockstore.care.verify.deep import check_deep
from blockstore.care.verify.duplicates import Duplicates
from blockstore.care.verify.files import check_files
from blockstore.care.verify.index import check_index, check_tags
from blockstore.care.verify.inventory import Inventory, check_names, take_inventory
from blockstore.care.verify.kept import KeptBlock, check_kept, kept_blocks, kept_hash
from blockstore.care.verify.live import check_live
from blockstore.care.verify.noted import Noted, check_noted
from blockstore.care.verify.others import Surroundings, check_any, check_other
from blockstore.care.verify.rows import check_rows
from blockstore.care.verify.segments import check_segments
from blockstore.errors import Corrupt, NotFound, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.meta import load_meta
from blockstore.format.properties import Properties
from blockstore.format.schema import serialize
from blockstore.index import ulids
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.lifecycle.listing import Directory
from blockstore.lifecycle.standing import standing_of
from blockstore.lifecycle.states import Standing
from blockstore.world import World

_SLICE = 256

Advance = Callable[[float], None]
"""Called with the progress: blocks checked, or in a deep check bytes read."""


def verify(
    bucket: ReadBucket,
    world: World,
    *,
    deep: bool = False,
    noted: Noted | None = None,
    properties: Properties | None = None,
    advance: Advance = lambda _: None,
    start: Callable[[float], None] = lambda _: None,
) -> Report:
    """Check the table in ``bucket``. Raises NotFound if there is none.

    Args:
        bucket: the table.
        world: the clock and the threads.
        deep: whether to read every file as well.
        noted: a version that the history must contain.
        properties: those of a table without an index.
        advance: called with each step: directories, or in a deep check bytes.
        start: called once with the sum of all steps.
    """
    inventory = take_inventory(bucket)
    index = survey(bucket, world, every_checkpoint=deep)
    if not index.indexed and not inventory.directories:
        raise NotFound(
            f"there is no table at {bucket.url}: found neither an index nor a block; check the URL"
        )
    state = index.state
    around = Surroundings(
        url=bucket.url,
        state=state,
        indexed=index.indexed,
        index_complete=index.is_complete,
        properties=state.definition.properties if state is not None else properties or Properties(),
        now_ms=inventory.now_ms,
    )
    named = _named_later(index)
    kept = {ulid: block for ulid, block in kept_blocks(bucket, index).items() if ulid not in named}
    look = _Look(
        bucket=bucket, world=world, around=around, named=named, gone=index.removed_later, kept=kept
    )
    start(
        sum(_size(one) for one in inventory.directories.values())
        if deep
        else len(inventory.directories)
    )
    findings = [
        *check_index(index, bucket.url),
        *check_tags(bucket, world, index, bucket.url),
        *check_names(inventory),
        *_shared_sources(state, bucket.url),
        *look.blocks(inventory, (lambda _: None) if deep else advance),
        *look.others(),
        *look.duplicates.findings(bucket.url, indexed=index.indexed),
    ]
    if deep:
        for finding in check_deep(bucket, world, look.readable(), bucket.url, advance):
            block = kept.get(finding.block or "") if finding.check is Check.HASH else None
            findings.append(finding if block is None else kept_hash(block, finding, bucket.url))
    damaged = {one.block for one in findings if one.block and one.severity is Severity.ERROR}
    findings += check_rows(bucket, world, state, deep=deep, damaged=damaged)
    of_kept = [block.meta for block in kept.values()]
    findings += check_files(bucket, world, state, of_kept, deep=deep, damaged=damaged)
    if noted is not None:
        findings += check_noted(bucket, world, noted)
    findings += check_quarantined(look.quarantined, tuple(findings), bucket.url, deep=deep)
    return Report.of(
        findings,
        url=bucket.url,
        version=None if state is None else state.version,
        chain=None if state is None else state.last.chain or None,
        deep=deep,
        blocks=look.complete,
        files=look.files,
        bytes=look.bytes,
    )


@dataclass(slots=True, kw_only=True)
class _Look:
    """One check of all blocks."""

    bucket: ReadBucket
    world: World
    around: Surroundings
    named: Mapping[str, LiveBlock]
    """Blocks of entries that cannot be folded; their sources are uncertain."""
    gone: frozenset[str]
    """Blocks that such entries remove."""
    kept: Mapping[str, KeptBlock]
    """Blocks that only tags and older versions name."""
    duplicates: Duplicates = field(default_factory=Duplicates)
    rest: dict[str, Examined] = field(default_factory=dict)
    """Directories without a live block."""
    whole: dict[str, Severity] = field(default_factory=dict)
    """The blocks that a deep check reads, and the severity of a problem in their files."""
    quarantined: dict[str, str] = field(default_factory=dict)
    """Visible blocks that the compactor keeps out of merges as damaged, and what it had found."""
    complete: int = 0
    files: int = 0
    bytes: int = 0

    def blocks(self, inventory: Inventory, advance: Advance) -> Iterator[Finding]:
        """Check every directory, and every live block without one."""
        live = [] if self.around.state is None else self.around.state.blocks.ulids()
        missing = [
            ulid
            for ulid in (*live, *self.named, *self.kept)
            if ulid not in inventory.directories and ulid not in self.gone
        ]
        again = self.world.pool.map(lambda ulid: list_directory(self.bucket, ulid), missing)
        wanted: list[Directory] = [*inventory.directories.values(), *again]
        for part in _slices(wanted):
            for found in self.world.pool.map(lambda one: examine(self.bucket, one), part):
                yield from self._one(found)
            advance(len(part))

    def others(self) -> Iterator[Finding]:
        """Check the directories without a live block, when all are known."""
        around = self.around
        found = {ulid: one.found for ulid, one in self.rest.items()}
        listed = list_snapshot(found, around.state, around.properties, around.now_ms)
        superseded = {meta.ulid for meta in listed.cover.superseded}
        for block in listed.cover.chosen:
            if block.only_sources is None:
                self.duplicates.add(block.meta)
        held = listed.cover.sources
        chosen = {block.meta.ulid for block in listed.cover.chosen}
        for ulid, one in self.rest.items():
            if one.meta is not None and (
                (one.is_complete and one.mark is None) or ulid in self.kept
            ):
                bad = self._how_bad(one, chosen=ulid in chosen)
                self.whole[ulid] = Severity.NOTE if ulid in superseded else bad
                if ulid in chosen and not around.indexed:
                    self._note_quarantine(one)
            if one.is_complete:
                covered = ulid in superseded
            else:
                covered = held.issuperset((ulid,) if one.meta is None else one.meta.sources)
            if ulid not in self.kept:
                yield from check_other(one, covered, around)
        if listed.cover.partial_overlaps and not around.indexed:
            yield _overlap(listed.cover.partial_overlaps, around.url)

    def readable(self) -> Iterator[tuple[BlockMeta, Severity]]:
        """Yield the metas of the blocks for a deep check, each with its schema."""
        for ulid, severity in self.whole.items():
            block = None if ulid in self.named else self._live(ulid)
            schemas = {} if self.around.state is None else self.around.state.definition.schemas
            if block is not None and block.meta.schema_id in schemas:
                yield replace(block.meta, schema=serialize(schemas[block.meta.schema_id])), severity
            else:
                try:
                    yield load_meta(self.bucket, ulid), severity
                except (Corrupt, ObjectMissing):
                    continue  # removed meanwhile

    def _live(self, ulid: str) -> LiveBlock | None:
        """Return what the index says of a block, as far as it can be read."""
        if ulid in self.named:
            return self.named[ulid]
        if self.around.state is None or ulid in self.gone:
            return None
        return self.around.state.blocks.get(ulid)

    def _one(self, found: Examined) -> Iterator[Finding]:
        around = self.around
        block = self._live(found.ulid)
        meta = found.meta if block is None else block.meta
        yield from check_any(found, () if meta is None else meta.paths, around)
        if meta is not None and found.directory.objects:
            yield from check_segments(meta, found, around.url)
        if block is not None and around.state is not None:
            unsure = frozenset({"sources"} if found.ulid in self.named else ())
            yield from check_live(block, found, around.state.definition, around.url, unsure=unsure)
            self.duplicates.add(block.meta)
            self._note_quarantine(found)
        elif found.directory.objects:
            self.rest[found.ulid] = _slim(found)
        if found.ulid in self.kept and around.state is not None:
            yield from check_kept(self.kept[found.ulid], found, around.state.definition, around.url)
        if meta is not None and found.directory.objects:
            self._count(found, meta)
        if block is not None and found.directory.objects:
            self.whole[found.ulid] = Severity.ERROR

    def _note_quarantine(self, found: Examined) -> None:
        why = quarantined_as(found.no_compact)
        if why is not None:
            self.quarantined[found.ulid] = why

    def _count(self, found: Examined, meta: BlockMeta) -> None:
        self.complete += found.is_complete
        self.files += len(meta.files)
        self.bytes += sum(file.bytes for file in meta.files)

    def _how_bad(self, one: Examined, *, chosen: bool) -> Severity:
        """Return the severity of damage in a block that is not live."""
        if chosen and not self.around.indexed:
            return Severity.ERROR
        standing = standing_of(one.ulid, one.meta, self.around.state)
        return Severity.WARNING if chosen or standing is not Standing.ACCOUNTED else Severity.NOTE


def _named_later(index: Survey) -> dict[str, LiveBlock]:
    return {
        ulid: LiveBlock(
            meta=block.meta, version=block.version or 0, first_row_id=block.first_row_id or 0
        )
        for ulid, block in index.added_later.items()
    }


def _slim(found: Examined) -> Examined:
    if found.meta is None:
        return found
    return replace(found, meta=slim(found.meta))


def _slices(items: list[Directory]) -> Iterable[list[Directory]]:
    return (items[start : start + _SLICE] for start in range(0, len(items), _SLICE))


def _size(directory: Directory) -> int:
    return sum(found.size for found in directory.objects.values())


def _shared_sources(state: State | None, url: str) -> Iterator[Finding]:
    """Report live blocks that share a source: the index never has any (3.3)."""
    if state is None:
        return
    found, counts = np.unique(state.blocks.rows().sources, return_counts=True)
    for source in ulids.to_texts(found[counts > 1]):
        yield Finding(
            severity=Severity.ERROR,
            check=Check.SHARED_SOURCE,
            object=source,
            what=f"two live blocks of version {state.version} account for this write: its rows "
            "are read twice",
            fix=f"stop all writers, and compare the index of {url} with a copy",
        )


def _overlap(blocks: int, url: str) -> Finding:
    return Finding(
        severity=Severity.NOTE,
        check=Check.SHARED_SOURCE,
        object=url,
        what=f"{blocks:,} blocks are only read in part, because others hold the rest of their "
        "rows: two compactors ran at the same time",
        fix="run one compactor; its next merges resolve this",
    )
