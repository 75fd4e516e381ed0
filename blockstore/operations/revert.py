"""``revert``: the rows of entire writes are hidden, wherever merges have carried them - one index
entry, and no rows move.

Rules:
- The live block that accounts for a write gets an exception for it; the next merge drops the rows.
  A block of which no write is left to be seen is removed.
- An overwrite's own block accounts for the writes that it replaced, and shows none of their rows.
  So reverting one of those is nothing to do, and reverting the overwrite does not bring their rows
  back: restore does. The result and the entry name such overwrites, as long as their block was not
  merged.
- A write that is durable and not in the index yet is accounted for, so that it never comes in.
- Which block holds a write is decided again on every state that the entry is tried on: merges in
  between do no harm.
- Only a dry run reads: it counts the rows of each write in merged blocks, which metadata do not
  state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from blockstore.errors import Conflict, Invalid, NotFound
from blockstore.format.block import Job
from blockstore.index.change import Change, Committed, Done, Draft, nothing
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock
from blockstore.index.rules import batch_done
from blockstore.index.state import State
from blockstore.names import is_ulid
from blockstore.operations.access import Access
from blockstore.operations.append import publish_first
from blockstore.operations.conditions import check_said
from blockstore.operations.results import Reverted
from blockstore.operations.view import look_first, snapshot_of
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan

_SOURCE = "_source"
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hiding:
    """What a revert means on one state."""

    held: Mapping[str, tuple[str, ...]]
    """By block: the sources that it shows, among those to be hidden."""
    blocks: Mapping[str, LiveBlock]
    emptied: tuple[str, ...]
    """The blocks that show no other source."""
    account: tuple[str, ...]

    @property
    def overwrites(self) -> tuple[str, ...]:
        """The sources that were overwrites, their block as they made it."""
        return tuple(sorted(ulid for ulid, block in self.blocks.items() if _is_overwrite(block)))


@dataclass(kw_only=True)
class Revert(Change):
    """Hide ``sources``; those of ``waiting`` that the index still does not know are accounted
    for."""

    operation: Operation = Operation.REVERT
    commit: str
    sources: tuple[str, ...]
    waiting: frozenset[str] = frozenset()
    message: str = ""
    job: Job | None = None
    hidings: dict[int, Hiding] = field(default_factory=dict)
    """What was decided on each state that it was tried on, by version."""

    def draft(self, state: State) -> Draft | Done:
        found = self.hidings[state.version] = hiding(state, self.sources, self.waiting)
        if not found.held and not found.account:
            return nothing(self)
        excepts = {ulid: hits for ulid, hits in found.held.items() if ulid not in found.emptied}
        parameters: dict[str, object] = {"sources": list(self.sources)}
        if found.overwrites:
            parameters["overwrites"] = list(found.overwrites)
            parameters["note"] = (
                "the rows that these overwrites replaced do not come back; restore brings them"
            )
        return Draft(
            remove=found.emptied,
            excepts=excepts,
            account=found.account,
            read={ulid: block.excepted for ulid, block in found.blocks.items()},
            read_version=state.version,
            parameters=parameters,
            message=self.message,
        )


def revert(
    access: Access,
    sources: Iterable[str | int],
    *,
    dry_run: bool = False,
    message: str = "",
    job: Job | None = None,
) -> Reverted:
    """Hide the rows of these writes. With a ``job`` it happens once.

    Raises NotFound for one that the table never had; then nothing is changed.
    """
    check_said(job, message)
    wanted = _checked(sources)
    for _ in range(_TRIES):
        state = access.log.poll()
        if not dry_run and (done := batch_done(state, job, ordered=True)) is not None:
            access.log.confirm()
            return Reverted(version=done.version, repeated=True)
        waiting: frozenset[str] = frozenset()
        unknown = [source for source in wanted if source not in state.accounted]
        if unknown:
            view = look_first(access)
            state, waiting = view.state, view.waiting.intersection(unknown)
            _check_known(access.bucket.url, state, [one for one in unknown if one not in waiting])
            in_part = [
                block.meta
                for block in view.unpublished
                if waiting & block.sources and block.sources - set(wanted)
            ]
            if not dry_run and publish_first(access, view, in_part, "revert"):
                continue
        commit = access.world.ids.ulid()
        change = Revert(commit=commit, sources=wanted, waiting=waiting, message=message, job=job)
        if dry_run:
            found = hiding(state, wanted, waiting)
            rows = {
                source: n
                for block in found.blocks.values()
                for source, n in _count(access, state, block)
            }
            return _answer(wanted, found, rows=rows, dry_run=True)
        committed = access.log.commit(change)
        return _answer_of(access.log, change, committed)
    raise Conflict(
        f"this revert published blocks {_TRIES} times, and more came each time: try again"
    )


def hiding(state: State, sources: Iterable[str], waiting: frozenset[str] = frozenset()) -> Hiding:
    """Where a state shows the sources, and what is left of those blocks without them. Pure."""
    wanted = set(sources)
    held: dict[str, tuple[str, ...]] = {}
    blocks: dict[str, LiveBlock] = {}
    emptied = []
    for block in state.blocks.holding(wanted):
        shown = _shown(block)
        hits = shown & wanted
        if not hits:
            continue
        held[block.ulid] = tuple(sorted(hits))
        blocks[block.ulid] = block
        if hits == shown:
            emptied.append(block.ulid)
    account = tuple(sorted(source for source in waiting & wanted if source not in state.accounted))
    return Hiding(held=held, blocks=blocks, emptied=tuple(emptied), account=account)


def _shown(block: LiveBlock) -> frozenset[str]:
    """The sources of which the block may show rows: of an overwrite's own block, itself alone."""
    sources = frozenset({block.ulid}) if _is_overwrite(block) else frozenset(block.meta.sources)
    return sources - block.excepted


def _is_overwrite(block: LiveBlock) -> bool:
    """Whether all rows are the block's own although it accounts for others: it replaced theirs."""
    return block.meta.own and len(block.meta.sources) > 1 and block.ulid in block.meta.sources


def named_once(writes: Iterable[str | int]) -> list[str | int]:
    """The writes that a caller names. Raises Invalid for a list in their place."""
    given = list(writes)
    for one in given:
        if not isinstance(one, Hashable):
            raise Invalid(
                f"{one!r:.100} is not a write, expected the ULID of each as an argument of its "
                "own: revert(*ulids)"
            )
    return given


def _checked(sources: Iterable[str | int]) -> tuple[str, ...]:
    if isinstance(sources, str):
        sources = [sources]
    given = dict.fromkeys(named_once(sources))
    if not given:
        raise Invalid("revert needs at least one write: pass its ULID, as append returned it")
    wanted = []
    for source in given:
        if not isinstance(source, str) or not is_ulid(source):
            raise Invalid(
                f"{source!r} is not a ULID of a write, expected 26 characters as append returned "
                "them"
            )
        wanted.append(source)
    return tuple(sorted(wanted))


def _check_known(url: str, state: State, unknown: list[str]) -> None:
    if unknown:
        raise NotFound(
            f"{url} has no write {unknown[0]} at version {state.version}: expected the ULID that "
            "a write returned, or a _source of its rows"
        )


def _answer_of(log: Log, change: Revert, committed: Committed) -> Reverted:
    version = committed.version
    before = max(change.hidings) if version is None else version - 1
    found = change.hidings.get(before)
    if found is None:
        found = hiding(log.at(before), change.sources, change.waiting)
    rows = {}
    for block in found.blocks.values():
        if _is_overwrite(block):
            rows[block.ulid] = block.meta.rows
        elif len(block.meta.sources) == 1:
            rows[block.meta.sources[0]] = block.meta.rows
    return _answer(change.sources, found, rows=rows, version=version)


def _answer(
    wanted: Iterable[str],
    found: Hiding,
    *,
    rows: Mapping[str, int],
    version: int | None = None,
    dry_run: bool = False,
) -> Reverted:
    hidden = {source: ulid for ulid, hits in found.held.items() for source in hits}
    return Reverted(
        version=version,
        dry_run=dry_run,
        hidden=hidden,
        removed=found.emptied,
        accounted=found.account,
        already=tuple(
            source for source in wanted if source not in hidden and source not in found.account
        ),
        overwrites=found.overwrites,
        rows={source: rows[source] for source in sorted(rows) if source in hidden},
    )


def _count(access: Access, state: State, block: LiveBlock) -> list[tuple[str, int]]:
    """The rows of each source that a block shows."""
    plan = plan_scan(snapshot_of(state, block), columns=[_SOURCE])
    counts: Counter[str] = Counter()
    for batch in read_plan(access.bucket, plan, access.world):
        for one in pc.value_counts(batch.column(0)).to_pylist():
            counts[one["values"]] += one["counts"]
    return list(counts.items())
