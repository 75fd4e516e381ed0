"""Plan a repair: check the table and list the steps. Nothing is changed.

Rules:
- Named blocks are checked byte by byte; without names, ``verify`` finds the damaged blocks.
- A step says what it does and which rows it would lose, or, if it can do nothing, what a person can
  do.
- A block with lost files is rewritten without them only if that was requested (``drop_damaged``).
- Where rows have an identity, only the very bytes repair a block: nothing of it is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.care.examine import Examined, examine, list_directory
from blockstore.care.finding import Check, Finding, Severity
from blockstore.care.marks.quarantine import DAMAGE, can_merge, quarantined_as
from blockstore.care.repair.by_age import unchosen
from blockstore.care.repair.copies import Copies, GoodFiles
from blockstore.care.repair.leaves import leaf_steps
from blockstore.care.repair.put_back import look_for
from blockstore.care.repair.segments import LostSegments
from blockstore.care.repair.stale import look_at_stale
from blockstore.care.repair.step import RepairOptions, RepairPlan, Step, StepKind
from blockstore.care.repair.target import Target
from blockstore.care.survey import Survey, slim, state_at, survey
from blockstore.care.verify import verify
from blockstore.care.verify.deep import check_block
from blockstore.care.verify.index import check_index, check_tags
from blockstore.care.verify.kept import KeptBlock, kept_blocks
from blockstore.errors import Invalid, NotFound
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.index.state import State
from blockstore.names import META, entry_key, no_compact_mark_key, parse_checkpoint
from blockstore.world import World

_AS_WRITTEN = "all of it is as it was written"


def plan_repair(
    bucket: Bucket, world: World, target: Target | None, options: RepairOptions
) -> RepairPlan:
    """Check the table, or the named blocks, and return what to do.

    ``target`` is None if the table cannot be opened: then only its index can be repaired.
    """
    steps: list[Step] = []
    if options.stale_entry is not None:
        stale = look_at_stale(bucket, world, options.stale_entry)
        step = Step(kind=StepKind.STALE, object=entry_key(stale.id), what=stale.what, stale=stale)
        return RepairPlan(url=bucket.url, steps=(step,))
    index = survey(bucket, world)
    if target is None:
        steps += leaf_steps(bucket, index, options.replica)
        steps += _index_steps(bucket, world, index)
        steps += [
            _for_person(one)
            for one in check_index(index, bucket.url)
            if one.check is not Check.CHECKPOINT
        ]
        return RepairPlan(url=bucket.url, steps=tuple(steps))
    planner = _Planner(
        target=target,
        options=options,
        copies=Copies(bucket=bucket, replica=options.replica),
        index=index,
        kept=kept_blocks(bucket, index),
    )
    if options.named:
        steps += planner.named()
    else:
        steps += leaf_steps(bucket, index, options.replica)
        steps += _index_steps(bucket, world, index)
        steps += planner.found()
    return RepairPlan(url=bucket.url, steps=tuple(steps))


def _index_steps(bucket: ReadBucket, world: World, index: Survey) -> Iterator[Step]:
    """Yield a step for each bad checkpoint that the entries can restore."""
    for version, problem in sorted(index.bad_checkpoints.items()):
        state = index.folded.get(version)
        if state is not None:
            what = f"write checkpoint {version} again from the entries up to it: {problem}"
            yield Step(
                kind=StepKind.CHECKPOINT,
                object=str(version),
                version=version,
                state=state,
                what=what,
            )
    for finding in check_tags(bucket, world, index, bucket.url):
        pinned = parse_checkpoint(finding.object)
        if pinned in index.folded:
            continue  # one of those above
        kept = pinned is not None and index.boundary is not None and pinned > index.boundary
        state = state_at(bucket, world, index, pinned) if pinned is not None and kept else None
        if state is not None:
            what = (
                f"write checkpoint {pinned}, which a tag keeps, from the entries up to it: "
                f"{finding.what}"
            )
            yield Step(
                kind=StepKind.CHECKPOINT, object=str(pinned), version=pinned, state=state, what=what
            )
        elif kept:
            yield Step(
                kind=StepKind.PERSON,
                object=finding.object,
                what=f"{finding.what}; the entries up to it are no longer complete: restore it "
                "from "
                "a copy, or remove the tag with untag",
            )
        else:
            yield _for_person(finding)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    target: Target
    options: RepairOptions
    copies: Copies
    index: Survey
    kept: Mapping[str, KeptBlock]

    def named(self) -> Iterator[Step]:
        """Yield the steps for the named blocks."""
        for ulid in self.options.blocks:
            if ulid in self.kept:
                yield self._put_back(self.kept[ulid])
                continue
            findings = list(check_block(self.target.bucket, self.target.world, self._state, ulid))
            if any(one.check in DAMAGE for one in findings):
                yield self._replacement_step(ulid, findings)
            elif lacking := [one for one in findings if one.check is Check.SEGMENTS]:
                yield self._segments(ulid, lacking[0])
            else:
                yield self._whole(ulid, findings)
        for ulid in self.options.adopt:
            yield self._adopt(ulid)

    def found(self) -> Iterator[Step]:
        """Yield the steps for everything that ``verify`` finds."""
        report = verify(
            self.target.bucket,
            self.target.world,
            deep=self.options.deep,
            properties=None if self.target.log is not None else self.target.definition.properties,
        )
        damaged: dict[str, list[Finding]] = {}
        lost: dict[str, KeptBlock] = {}
        lacking: dict[str, Finding] = {}
        for finding in report:
            hurts = finding.severity is not Severity.NOTE
            kept = self.kept.get(finding.block or "")
            if finding.block is not None and finding.check is Check.SEGMENTS:
                lacking[finding.block] = finding
            elif kept is not None and finding.check in (Check.TAG, Check.VERSION):
                if hurts:
                    lost[kept.meta.ulid] = kept
            elif kept is not None and finding.check in DAMAGE:
                if hurts:
                    yield _as_it_was(kept, finding)
            elif finding.block is not None and finding.check in DAMAGE and hurts:
                damaged.setdefault(finding.block, []).append(finding)
            elif self.options.deep and finding.block is not None and _is_quarantine(finding):
                yield self._unmark(finding.block) or _for_person(finding)
            elif finding.check not in (Check.CHECKPOINT, Check.TAG):
                yield _for_person(finding)
        for block in lost.values():
            yield self._put_back(block)
        for ulid, findings in damaged.items():
            yield self._replacement_step(ulid, findings)
        for ulid, finding in lacking.items():
            if ulid not in damaged and ulid not in lost:
                yield self._segments(ulid, finding)
        if self.target.log is None:
            yield from self._unchosen()

    def _unchosen(self) -> Iterator[Step]:
        """Yield the steps for earlier repairs that readers do not choose."""
        for meta in unchosen(self.target, self.target.catalog.sync()):
            files = self.copies.files(meta)
            what = (
                "upload this repair again with a higher revision: readers choose older blocks "
                "instead"
            )
            yield Step(
                kind=StepKind.PERSON if files.lost else StepKind.RAISE,
                object=meta.ulid,
                what=f"{what}; {_lost(files)}" if files.lost else what,
                files=files,
            )

    def _segments(self, ulid: str, finding: Finding) -> Step:
        """Return the step that makes the hashes of a block's segments again."""
        live = None if self._state is None else self._state.blocks.get(ulid)
        meta = self.copies.meta(ulid) if live is None else live.meta
        if meta is None or meta.segments is None:
            return _for_person(finding)
        what = f"make them again from its chunks, which are checked on the way: {finding.what}"
        return Step(
            kind=StepKind.SEGMENTS, object=ulid, what=what, segments=LostSegments(meta=meta)
        )

    @property
    def _state(self) -> State | None:
        return None if self.target.log is None else self.target.log.state

    def _replacement_step(self, ulid: str, findings: list[Finding]) -> Step:
        found = "; ".join(f"{one.object}: {one.what}" for one in findings)
        live = None if self._state is None else self._state.blocks.get(ulid)
        meta = self.copies.meta(ulid) if live is None else live.meta
        if meta is None:
            return Step(
                kind=StepKind.PERSON,
                object=ulid,
                what=f"its meta.json is lost: {found}; {_elsewhere(ulid)}",
            )
        if live is None and self._is_superseded(meta):
            what = (
                f"other blocks hold its rows, so it needs no repair: {found}; mark it for deletion"
            )
            return Step(kind=StepKind.PERSON, object=ulid, what=what)
        if live is None and self.target.log is not None and meta.visible_by is VisibleBy.INDEX:
            what = (
                f"no entry ever named it, and only an entry could make it visible: {found}; leave "
                "it to the compactor"
            )
            return Step(kind=StepKind.PERSON, object=ulid, what=what)
        if live is None and self._is_late(meta):
            what = (
                f"it is at or below the floor, as a copy of it would be: {found}; if you want its "
                "rows, "
            )
            what += (
                f"blockstore repair {self.target.bucket.url} --adopt {ulid} --from REPLICA, or "
                "mark it for deletion"
            )
            return Step(kind=StepKind.PERSON, object=ulid, what=what)
        if self.target.definition.identity is not None:
            return self._as_written(meta, found)
        files = self.copies.files(meta)
        if files.lost and not self.options.drop_damaged:
            return Step(
                kind=StepKind.PERSON,
                object=ulid,
                what=f"{_lost(files)}: {found}; {_elsewhere(ulid)}",
            )
        how = f"{len(files.holders) - files.from_replica} of {len(meta.files)} files are good here"
        how += f", {files.from_replica} in the replica" if files.from_replica else ""
        how += f"; {_lost(files)}" if files.lost else ""
        kind = StepKind.REWRITE if live is not None else StepKind.UPLOAD
        what = f"replace it by a copy of its rows, {how} ({found})"
        return Step(kind=kind, object=ulid, what=what, rows_lost=files.rows_lost, files=files)

    def _as_written(self, meta: BlockMeta, found: str) -> Step:
        """Return the step for a block of a table whose rows have an identity: only the very bytes
        repair it, since without some of its rows older versions of these would be current."""
        ulid = meta.ulid
        back = look_for(
            slim(meta), self.target.definition, self.target.bucket, self.options.replica
        )
        lacking = [*(file.path for file in back.files), *([META] if back.meta else [])]
        lost = f"{len(back.lost):,} of its objects are lost everywhere"
        if not lacking:
            what = (
                f"{lost}: {found}; give a replica that has the very objects (--from URL): where "
                "rows have an identity a block is not replaced by a part of its rows, or older "
                "versions of the others would return"
            )
            return Step(kind=StepKind.PERSON, object=ulid, what=what)
        what = f"restore {len(lacking):,} of its objects from the replica ({found})"
        what += f"; {lost}" if back.lost else ""
        return Step(kind=StepKind.PUT_BACK, object=ulid, what=what, put_back=back)

    def _whole(self, ulid: str, findings: list[Finding]) -> Step:
        """Return the step for an undamaged block: allow merges again, if only quarantine stops
        them."""
        unmark = self._unmark(ulid) if can_merge(findings) else None
        if unmark is not None:
            return unmark
        found = "; ".join(f"{one.object}: {one.what}" for one in findings) or _AS_WRITTEN
        for key, why in self._examined(ulid).mark_problems:
            if key == no_compact_mark_key(ulid):
                found += (
                    f"; {why}: withdraw the mark with blockstore mark {self.target.bucket.url} "
                    f"{ulid} --no-compact --remove"
                )
        return Step(kind=StepKind.PERSON, object=ulid, what=f"nothing to repair: {found}")

    def _unmark(self, ulid: str) -> Step | None:
        why = quarantined_as(self._examined(ulid).no_compact)
        if why is None:
            return None
        what = f"it is intact: remove the mark that keeps it out of merges (placed because: {why})"
        return Step(kind=StepKind.UNMARK, object=ulid, what=what)

    def _examined(self, ulid: str) -> Examined:
        return examine(self.target.bucket, list_directory(self.target.bucket, ulid))

    def _put_back(self, block: KeptBlock) -> Step:
        """Return the step that restores the lost objects of a block that is not live."""
        ulid = block.meta.ulid
        found = look_for(
            block.meta, self.target.definition, self.target.bucket, self.options.replica
        )
        lacking = [*(file.path for file in found.files), *([META] if found.meta else [])]
        lost = (
            f"{', '.join(found.lost[:3])}{' …' if len(found.lost) > 3 else ''} of it "
            f"{'is' if len(found.lost) == 1 else 'are'} lost"
        )
        if not lacking and not found.lost:
            state = None  # the newest version does not name it, so its own meta.json counts
            return self._whole(
                ulid, list(check_block(self.target.bucket, self.target.world, state, ulid))
            )
        if not lacking:
            what = (
                f"{block.who} names it, but {lost}; give a replica that has it (--from URL); "
                f"without one, {block.instead}"
            )
            return Step(kind=StepKind.PERSON, object=ulid, what=what)
        what = (
            f"restore {', '.join(lacking[:3])}{' …' if len(lacking) > 3 else ''} from the replica: "
            f"{block.who} names it"
        )
        what += f"; {lost}" if found.lost else ""
        return Step(kind=StepKind.PUT_BACK, object=ulid, what=what, put_back=found)

    def _is_superseded(self, meta: BlockMeta) -> bool:
        if self._state is not None:
            return len(self._state.accounted.held(meta.sources)) == len(meta.sources)
        return False

    def _is_late(self, meta: BlockMeta) -> bool:
        """Return whether the index refuses it under any name."""
        return self._state is not None and any(
            map(self._state.below_floor, (meta.ulid, *meta.sources))
        )

    def _adopt(self, ulid: str) -> Step:
        if self._state is None:
            raise Invalid(
                f"block {ulid} of {self.target.bucket.url} cannot be adopted: without an index "
                "every complete block is read when it is old enough; --adopt is for blocks that "
                "arrived too late for an index"
            )
        if ulid in self._state.blocks:
            raise Invalid(
                f"block {ulid} is live at version {self._state.version}: nothing to adopt"
            )
        meta = self.copies.meta(ulid)
        if meta is None:
            raise NotFound(
                f"there is no block {ulid} in {self.target.bucket.url} whose meta.json can be read"
            )
        files = self.copies.files(meta)
        if files.lost and not self.options.drop_damaged:
            return Step(
                kind=StepKind.PERSON, object=ulid, what=f"{_lost(files)}; {_elsewhere(ulid)}"
            )
        held = self._state.accounted.held(meta.sources)
        if len(held) == len(meta.sources):
            raise Invalid(
                f"block {ulid} has no rows to adopt: the index accounts for all of its sources"
            )
        what = "accept its rows as a new write"
        what += (
            f", without those of {len(held)} of its sources, which the index accounts for"
            if held
            else ""
        )
        what += f"; {_lost(files)}" if files.lost else ""
        return Step(
            kind=StepKind.ADOPT, object=ulid, what=what, rows_lost=files.rows_lost, files=files
        )


def _is_quarantine(finding: Finding) -> bool:
    """Return whether it is an intact block that is marked as damaged, as a deep check finds."""
    return finding.block is not None and finding.object == no_compact_mark_key(finding.block)


def _for_person(finding: Finding) -> Step:
    return Step(kind=StepKind.PERSON, object=finding.object, what=f"{finding.what}; {finding.fix}")


def _as_it_was(block: KeptBlock, finding: Finding) -> Step:
    """Return the step for a file of a block that is not live, which was written with a fault: the
    very bytes are there, and no other block takes its place in that version."""
    what = f"{block.who} names the block, and a file of it {finding.what}; {block.instead}"
    return Step(kind=StepKind.PERSON, object=finding.object, what=what)


def _lost(files: GoodFiles) -> str:
    names = ", ".join(file.path for file in files.lost[:3]) + (" …" if len(files.lost) > 3 else "")
    return f"{files.rows_lost:,} of its {files.meta.rows:,} rows are lost with {names}"


def _elsewhere(ulid: str) -> str:
    return (
        "give a replica that has it (--from URL), give up those rows (--drop-damaged), or mark "
        f"block {ulid} for deletion"
    )
