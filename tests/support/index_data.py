"""What the tests of the index build with: blocks, changes and histories, small and named by
number."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from blockstore.format import BlockMeta, ChunkFile, ColumnStats, Definition, Job, Parent, VisibleBy
from blockstore.ids import ulid_at
from blockstore.index.added import AddedBlock
from blockstore.index.assemble import assemble
from blockstore.index.change import Append, Change, Create, Done, Draft
from blockstore.index.entry import Entry, Operation, encode_entry
from blockstore.index.fold import fold
from blockstore.index.rules import decide
from blockstore.index.state import State

NOW = 1_700_000_000_000
SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
DEFINITION = Definition.create(SCHEMA, sort_by=["key"])


def ulid(number: int) -> str:
    """The ULID of this number: numbers sort as their ULIDs do."""
    return ulid_at(NOW + number)


def block(
    number: int, *, rows: int = 10, sources: tuple[str, ...] | None = None, **changes: object
) -> BlockMeta:
    """A level-1 block (or, with several sources, a merge) of this number."""
    name = ulid(number)
    level = 1 if sources is None or len(sources) == 1 else 2
    fields: dict[str, object] = {
        "ulid": name,
        "min_time": NOW,
        "max_time": NOW + 1,
        "rows": rows,
        "bytes": 100 * rows,
        "level": level,
        "sources": sources or (name,),
        "producer": "test",
        "sort_by": ("key",),
        "schema_id": 1,
        "files": (
            ChunkFile(
                path="chunks/000001.parquet",
                bytes=100 * rows,
                rows=rows,
                sha256="ab" * 32,
                columns={"key": ColumnStats(min=0, max=rows, nulls=0)},
            ),
        ),
    }
    return BlockMeta(**{**fields, **changes})  # type: ignore[arg-type]


def merge(number: int, parents: list[BlockMeta]) -> BlockMeta:
    """A block that a compaction makes of its parents."""
    return block(
        number,
        rows=sum(parent.rows for parent in parents),
        sources=tuple(sorted({source for parent in parents for source in parent.sources})),
        level=1 + max(parent.level for parent in parents),
        parents=tuple(
            Parent(ulid=one.ulid, min_time=one.min_time, max_time=one.max_time) for one in parents
        ),
        own=False,
        visible_by=VisibleBy.INDEX,
    )


@dataclass(kw_only=True)
class Planned(Change):
    """A change whose draft is known, or computed from the state."""

    operation: Operation
    commit: str
    plan: Draft | Callable[[State], Draft | Done]
    job: Job | None = None
    ordered: bool = True
    role: str | None = None
    epoch: tuple[int, str] | None = None

    def draft(self, state: State) -> Draft | Done:
        return self.plan if isinstance(self.plan, Draft) else self.plan(state)


def compaction(commit: int, made: BlockMeta, parents: list[BlockMeta]) -> Planned:
    """Replace the parents by the block made of them."""
    draft = Draft(
        add=(AddedBlock(meta=made),),
        remove=tuple(parent.ulid for parent in parents),
        read={parent.ulid: frozenset() for parent in parents},
    )
    return Planned(operation=Operation.COMPACT, commit=ulid(commit), plan=draft)


def entry_of(state: State, change: Change, *, time_ms: int = NOW) -> Entry:
    """The entry that the change becomes after the state."""
    decided = decide(state, change)
    assert not isinstance(decided, Done), decided
    entry = assemble(state, change, decided[0], time_ms=time_ms, checkpoint=None, by="test")
    return replace(entry, sha256=hashlib.sha256(encode_entry(entry)).hexdigest())


def follow(state: State, *changes: Change, time_ms: int = NOW) -> State:
    """The state after these changes."""
    for change in changes:
        state = fold(state, entry_of(state, change, time_ms=time_ms))
    return state


def created() -> State:
    """Version 1 of a table."""
    return follow(State.EMPTY, Create(commit=ulid(0), definition=DEFINITION))


def history(seed: int, length: int) -> list[Entry]:
    """A random valid history: appends, jobs, merges, removals, exceptions, tags, epochs, a horizon
    and a floor."""
    draw = random.Random(seed)
    state, number = State.EMPTY, 1_000
    entries = []
    for step in range(length):
        number += 10
        if step == 0:
            change: Change = Create(commit=ulid(number), definition=DEFINITION)
        else:
            change = random_change(draw, state, number)
        entry = entry_of(state, change, time_ms=NOW + draw.randrange(0, 2_000_000) * step)
        entries.append(entry)
        state = fold(state, entry)
    return entries


def random_change(draw: random.Random, state: State, number: int) -> Change:
    """The next change of a random history; its blocks have this number and those after it."""
    live = [one.meta for one in state.blocks]
    commit = ulid(number)
    kind = draw.choice(
        ["append", "append", "append", "job", "merge", "expire", "revert", "tag", "epoch", "floor"]
    )
    if kind == "merge" and len(live) >= 2:
        parents = draw.sample(live, draw.randint(2, min(3, len(live))))
        made = merge(number + 1, parents)
        drafted = Draft(add=(AddedBlock(meta=made),), remove=tuple(one.ulid for one in parents))
        return Planned(operation=Operation.COMPACT, commit=commit, plan=drafted)
    if kind == "expire" and live:
        gone = Draft(remove=(draw.choice(live).ulid,), account=(ulid(number + 2),))
        return Planned(operation=Operation.EXPIRE, commit=commit, plan=gone)
    if kind == "revert" and live:
        target = draw.choice(live)
        hidden = Draft(excepts={target.ulid: (draw.choice(target.sources),)})
        return Planned(operation=Operation.REVERT, commit=commit, plan=hidden)
    if kind == "tag" and state.version > 1:
        tags: dict[str, int | None] = {f"t{number}": draw.randrange(1, state.version)}
        if state.tags and draw.random() < 0.5:
            tags[draw.choice(sorted(state.tags))] = None
        return Planned(operation=Operation.TAG, commit=commit, plan=Draft(tags=tags))
    if kind == "epoch":
        held = state.epochs.get("compactor", (0, ""))[0]
        return Planned(
            operation=Operation.EPOCH,
            commit=commit,
            plan=Draft(epochs={"compactor": (held + 1, commit)}),
        )
    if kind == "floor" and state.version > 3:
        floor = max(state.floor or ulid(0), ulid(number - draw.randrange(20, 200)))
        return Planned(
            operation=Operation.HORIZON,
            commit=commit,
            plan=Draft(horizon=floor, floor=floor, keep=()),
        )
    job = Job(app="nightly", batch=number) if kind == "job" else None
    blocks = tuple(
        block(number + 1 + place, rows=draw.randint(1, 5)) for place in range(draw.randint(1, 3))
    )
    return Append(commit=commit, blocks=blocks, job=job)


def append(number: int, *more: int, job: Job | None = None, ordered: bool = True) -> Append:
    """An append of fresh blocks with these numbers; its commit id is that of the first, plus half a
    million."""
    blocks = tuple(block(one) for one in (number, *more))
    return Append(commit=ulid(number + 500_000), blocks=blocks, job=job, ordered=ordered)
