"""One replacement of rows: decided on a view of the table, written, committed, and planned again
where the table moved on.

Rules (protocol 3.3):
- One index entry, all or nothing: blocks removed completely, rewrites of blocks of which some rows
  stay, the block of the new rows. Before it nothing that was written is visible; after an error it
  is debris.
- A block is replaced as it was read, with the exceptions under which it was read. If it was merged,
  rewritten or reverted meanwhile, the plan is made again on the newer state, a few times; what was
  written for blocks that did not change is used again. Only what clashes with the condition itself
  (``scope.py``) is the caller's to decide.
- Clashes are judged from the first view on, however often the plan is made again; so is what the
  condition means, for it was parsed over the columns of that time, and new rows were judged by it.
- A write that the index does not know: replaced completely, its sources are in ``account``; in
  part, it is published first.
- A condemned block is uploaded again under a new ULID that keeps its sources.
- An operation that was begun earlier (``since``) is about what was there then: what came later
  follows it. Its entry names the version of that time as the one that it has read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from blockstore.errors import BlockCondemned, Conflict, Fenced, HistoryReplaced, VersionExpired
from blockstore.format.block import BlockMeta, Job
from blockstore.format.properties import Isolation
from blockstore.index.added import AddedBlock
from blockstore.index.change import Change, Committed, Draft
from blockstore.index.entry import Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.append import publish_first
from blockstore.operations.kept_rows import Rewriter
from blockstore.operations.matching import Touched, matching
from blockstore.operations.new_rows import FreshRows
from blockstore.operations.results import Changed
from blockstore.operations.scope import Scope
from blockstore.operations.since import Gone, Since
from blockstore.operations.staging import RENEWALS, renewed, uploading
from blockstore.operations.view import View, look_first

_PLANS = 12
"""So often a plan is made before the table is said to change too fast."""


@dataclass(kw_only=True)
class Replace(Change):
    """Put the blocks ``add`` in the place of ``gone``, each of which was read under the exceptions
    named."""

    operation: Operation
    commit: str
    read: State
    add: tuple[BlockMeta, ...] = ()
    gone: Mapping[str, frozenset[str]]
    account: tuple[str, ...] = ()
    scope: Scope | None = None
    seen: frozenset[str] = frozenset()
    """Blocks that the plan knew of before the index did."""
    job: Job | None = None
    ordered: bool = True
    parameters: Mapping[str, object] = field(default_factory=dict)
    message: str = ""
    begun: int | None = None
    """The version at which the operation was begun, where that was before ``read``."""

    def draft(self, state: State) -> Draft:
        if self.scope is not None:
            self.scope.check_state(self.read, state, self.seen)
        return Draft(
            add=tuple(AddedBlock(meta=meta) for meta in self.add),
            remove=tuple(sorted(self.gone)),
            read=self.gone,
            account=self.account,
            read_version=self.read.version if self.begun is None else self.begun,
            parameters=self.parameters,
            message=self.message,
        )


@dataclass(kw_only=True)
class Replacing:
    """One overwrite or delete on its way."""

    access: Access
    operation: Operation
    scope: Scope
    view: View
    fresh: FreshRows | None = None
    """The new rows, uploaded."""
    job: Job | None = None
    ordered: bool = True
    """Whether the job's batches only rise; False for a backfill."""
    parameters: Mapping[str, object]
    message: str = ""
    since: Since | None = None
    """Where it was begun, if that was before ``view`` was taken."""
    _rewrites: dict[tuple[str, frozenset[str]], BlockMeta | None] = field(default_factory=dict)
    """What was written for a block and its exceptions; None: no row of it is left."""
    _seen: set[str] = field(default_factory=set)
    _gone: Gone | None = None

    def preview(self, rows_added: int) -> Changed:
        """What ``run`` would do now; reads what it would read, changes nothing, and raises the
        Conflict of now."""
        self._judge_begun()
        found = self._touched()
        return _answer(self.operation, found, {}, rows_added=rows_added, dry_run=True)

    def run(self) -> Changed:
        """Carry it out. Raises Conflict where others changed rows that it is about, Unavailable and
        Indeterminate as a commit; then nothing of it is visible, or, for Indeterminate, all of it
        may be."""
        with self.access.log.own_looks():
            return self._run()

    def _run(self) -> Changed:
        commit = self.access.world.ids.ulid()
        first, judged = self._judge_begun()
        problem: Conflict | None = None
        renewals = 0
        for _ in range(_PLANS):
            if problem is not None:
                self._look_again(problem)
                judged = self._judge(first, judged)
            found = self._touched()
            in_part = [one.meta for one in found if not (one.known or one.whole)]
            if publish_first(self.access, self.view, in_part, str(self.operation)):
                problem = Conflict(
                    f"blocks were published for this {self.operation}, and more came each time"
                )
                continue
            change = self._change(commit, found)
            if not (change.add or change.gone or change.account or self.job):
                return _answer(self.operation, found, {}, rows_added=0)
            try:
                committed = self.access.log.commit(change)
            except BlockCondemned as error:
                renewals += 1
                if renewals > RENEWALS:
                    raise
                self._renew()
                problem = error
            except (Fenced, HistoryReplaced):
                raise
            except Conflict as error:
                problem = error
            else:
                return self._answer(commit, committed, found, change)
        raise Conflict(
            f"this {self.operation} was planned {_PLANS} times, and each time another process was "
            "faster; nothing of it is in the index, try again when fewer processes change the "
            f"same blocks: {problem}"
        )

    def _judge_begun(self) -> tuple[int, int]:
        """The version that it was begun at, and up to which one nothing clashes."""
        if self.since is None:
            return self.view.state.version, self.view.state.version
        first = self.since.state.version
        self._seen.update(self.since.seen)
        if self.since.read and (
            self.operation is Operation.OVERWRITE or self.scope.isolation is Isolation.SERIALIZABLE
        ):
            self._gone = Gone(since=self.since, scope=self.scope)
        self.scope.check_definition(self.since.state.definition, self.view.state.definition)
        return first, self._judge(first, first)

    def _look_again(self, problem: Conflict) -> None:
        """Take a newer view; raise the problem where it is the same, for then another plan would
        end alike."""
        before = self.view
        self.view = look_first(self.access)
        self.scope.check_definition(before.state.definition, self.view.state.definition)
        same = (
            self.view.state.version == before.state.version
            and self.view.unpublished == before.unpublished
        )
        if same and not isinstance(problem, BlockCondemned):
            raise problem

    def _touched(self) -> tuple[Touched, ...]:
        view = self.view if self.since is None else self.since.before(self.view, self.scope)
        self._seen.update(block.meta.ulid for block in view.unpublished)
        return matching(self.access, view, self.scope.predicate, self.scope.labels)

    def _judge(self, first: int, judged: int) -> int:
        """Look at the entries since ``judged`` for a clash; returns up to which version there is
        none."""
        state = self.view.state
        if state.version > judged:
            try:
                for entry in self.access.log.entries(judged + 1, state.version):
                    self.scope.check_entry(entry, state.definition, first, frozenset(self._seen))
                    if self._gone is not None:
                        self._gone.check(entry, state.definition)
            except VersionExpired as error:
                raise Conflict(
                    f"this {self.operation} took longer than the table keeps its history "
                    f"({error}): run it again"
                ) from error
        return state.version

    def _change(self, commit: str, found: Sequence[Touched]) -> Replace:
        """Write what is to be added, and say the entry."""
        whole = [one for one in found if one.whole]
        known = [one.block for one in found if isinstance(one.block, LiveBlock)]
        with uploading(str(self.operation)):
            rewrites = {one.meta.ulid: self._rewrite(one) for one in found if not one.whole}
            replaced = [
                one.meta for one in found if one.known and rewrites.get(one.meta.ulid) is None
            ]
            own = None if self.fresh is None else self.fresh.block(replaced)
        return Replace(
            operation=self.operation,
            commit=commit,
            read=self.view.state,
            add=tuple(meta for meta in (own, *rewrites.values()) if meta is not None),
            gone={block.ulid: block.excepted for block in known},
            account=_accounted(whole),
            scope=self.scope,
            seen=frozenset(self._seen),
            job=self.job,
            ordered=self.ordered,
            parameters=self.parameters,
            message=self.message,
            begun=None if self.since is None else self.since.state.version,
        )

    def _rewrite(self, touched: Touched) -> BlockMeta | None:
        block = touched.block
        assert isinstance(block, LiveBlock), (
            "a block that is not published is published before it is rewritten"
        )
        key = (block.ulid, block.excepted)
        if key not in self._rewrites:
            rewriter = Rewriter(
                access=self.access, state=self.view.state, producer=str(self.operation)
            )
            self._rewrites[key] = rewriter.without(
                block, touched.fates, self.scope.predicate, self.scope.labels
            )
        return self._rewrites[key]

    def _renew(self) -> None:
        """Upload again what the horizon has passed."""
        state = self.access.log.state
        with uploading(str(self.operation)):
            for key, meta in self._rewrites.items():
                self._rewrites[key] = meta and renewed(self.access, state, meta)
            if self.fresh is not None:
                self.fresh.renew(state)

    def _answer(
        self, commit: str, committed: Committed, found: Sequence[Touched], change: Replace
    ) -> Changed:
        if committed.already and self.access.log.state.commits.find(commit) is None:
            return Changed(operation=str(self.operation), version=committed.version, already=True)
        written = {meta.parents[0].ulid: meta for meta in change.add if not self._is_fresh(meta)}
        own = next((meta for meta in change.add if self._is_fresh(meta)), None)
        return _answer(
            self.operation,
            found,
            written,
            own=own,
            rows_added=0 if own is None else own.rows,
            version=committed.version,
        )

    def _is_fresh(self, meta: BlockMeta) -> bool:
        return self.fresh is not None and self.fresh.source in meta.sources


def _accounted(whole: Sequence[Touched]) -> tuple[str, ...]:
    """The sources of blocks replaced completely that the index does not know."""
    sources = (
        source
        for one in whole
        if not isinstance(one.block, LiveBlock)
        for source in one.block.sources
    )
    return tuple(sorted(set(sources)))


def _answer(
    operation: Operation,
    found: Sequence[Touched],
    written: Mapping[str, BlockMeta],
    *,
    own: BlockMeta | None = None,
    rows_added: int,
    version: int | None = None,
    dry_run: bool = False,
) -> Changed:
    parts = [one.meta.ulid for one in found if not one.whole]
    stay = {ulid for ulid in parts if dry_run or ulid in written}
    counts = [one.rows for one in found]
    return Changed(
        operation=str(operation),
        version=version,
        dry_run=dry_run,
        added=() if own is None else (own.ulid,),
        removed=tuple(one.meta.ulid for one in found if one.known and one.meta.ulid not in stay),
        rewritten={ulid: None if dry_run else written[ulid].ulid for ulid in parts if ulid in stay},
        accounted=_accounted([one for one in found if one.whole]),
        rows_added=rows_added,
        rows_removed=None
        if None in counts
        else sum(count for count in counts if count is not None),
        bytes_removed=sum(one.meta.bytes for one in found),
        bytes_added=sum(meta.bytes for meta in (*written.values(), *([own] if own else []))),
    )
