"""``alter``: change columns, their rules and properties - one entry, and no block is touched.

Rules:
- The definition that the caller looked at is the one that is replaced. If another one is in the
  index by then, the operation conflicts and says in which version it changed.
- Old blocks are read under the newer schema, by field ids: added columns as nulls, widened ones as
  the wider type, dropped ones not at all.
- A new rule holds for every row that the index shows: existing rows are read, and one that breaks
  it refuses the alter. Rows that came meanwhile are read before the next attempt.
- A column that would hide a label, having its name, is refused: by the labels of the state that the
  entry follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Conflict, Invalid
from blockstore.format.block import Job
from blockstore.format.constraints import Rule, new_rules
from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration, check_no_label_is_hidden, named_as
from blockstore.format.texts import check_text
from blockstore.index.blocks import Blocks
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.operations.writer import MAX_MESSAGE
from blockstore.predicate.parse import Predicate
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

_READS = 12
"""So often rows that came meanwhile are read before the table is said to change too fast."""


class _RowsCame(Conflict):
    """There are rows that were not read; read them, and try again."""


@dataclass(kw_only=True)
class Alter(Change):
    """Replace the definition ``read`` by ``wanted``."""

    operation: Operation = Operation.ALTER
    commit: str
    read: Definition
    wanted: Definition
    read_version: int
    message: str = ""
    judged: frozenset[str] | None = None
    """The sources whose rows were read; None: no row had to be."""
    job: Job | None = None

    def draft(self, state: State) -> Draft:
        if state.definition != self.read:
            raise Conflict(
                f"the table's definition was changed after version {self.read_version}, which "
                f"this alter has read, and the table is at version {state.version} now: look at it "
                "again and alter again"
            )
        check_no_label_is_hidden(self.read, self.wanted, Snapshot.of(state).label_names)
        if self.judged is not None and _unread(state, self.judged):
            raise _RowsCame(
                f"rows were written after version {self.read_version}, which this alter has read "
                f"to check its rules, and the table is at version {state.version} now: alter again"
            )
        return Draft(table=self.wanted, read_version=self.read_version, message=self.message)


def alter(
    bucket: ReadBucket,
    log: Log,
    world: World,
    alteration: Alteration,
    *,
    message: str = "",
    job: Job | None = None,
    seen: Definition | None = None,
) -> Definition:
    """Commit the altered definition and return it; with a ``job`` it happens once. ``seen`` is the
    definition that the caller has looked at, if it must still be that. Existing rows are read if
    there is a new rule for them.

    Raises Invalid if values could be lost, a row breaks a new rule, or nothing changes; Conflict if
    the definition changed meanwhile, or rows come faster than they are read.
    """
    check_text("the message", message, limit=MAX_MESSAGE)
    state = log.poll()
    read = seen or state.definition
    wanted = altered(read, Snapshot.of(state).label_names, alteration)
    rules = new_rules(wanted.schema, named_as(read, wanted))
    commit, judged = world.ids.ulid(), frozenset[str]()
    for left in reversed(range(_READS)):
        if rules:
            judged = _judge(bucket, world, state, wanted, rules, judged)
        change = Alter(
            commit=commit,
            read=read,
            wanted=wanted,
            read_version=state.version,
            message=message,
            judged=judged if rules else None,
            job=job,
        )
        try:
            log.commit(change)
            break
        except _RowsCame:
            if not left:
                raise
            state = log.poll()
    return wanted


def altered(read: Definition, labels: Iterable[str], alteration: Alteration) -> Definition:
    """The definition with these changes; ``labels`` are those of the table's blocks. Pure; raises
    Invalid if values could be lost, or nothing changes."""
    wanted = alteration.applied(read)
    if wanted == read:
        raise Invalid(
            "alter changes nothing: name columns to add, widen, rename, drop or reorder, other "
            "rules of columns, or properties with other values"
        )
    check_no_label_is_hidden(read, wanted, labels)
    return wanted


def _unread(state: State, judged: frozenset[str]) -> list[LiveBlock]:
    """The blocks that may hold rows of writes that were not read. A merge or a rewrite of what was
    read brings none."""
    return [block for block in state.blocks if not judged.issuperset(block.meta.sources)]


def _judge(
    bucket: ReadBucket,
    world: World,
    state: State,
    wanted: Definition,
    rules: Iterable[Rule],
    judged: frozenset[str],
) -> frozenset[str]:
    """Read the rows of writes that were not ``judged``, and return all sources that are. Raises
    Invalid for a row that breaks a rule."""
    fresh = _unread(state, judged)
    # Which rows of a table with identity are current depends on all blocks.
    blocks = Blocks.of(fresh) if state.definition.identity is None else state.blocks
    snapshot = replace(Snapshot.of(state), definition=wanted, blocks=blocks)
    for rule in rules if fresh else ():
        plan = plan_scan(snapshot, columns=rule.columns, where=rule.suspects or Predicate())
        for rows in read_plan(bucket, plan, world):
            row = rule.first_broken(rows)
            if row is not None:
                raise Invalid(
                    f"column {rule.column!r} {rule.found(rows, row)} in a row of the table, "
                    f"expected {rule.expected}: correct such rows first, or choose another rule"
                )
    return judged.union(source for block in fresh for source in block.meta.sources)
