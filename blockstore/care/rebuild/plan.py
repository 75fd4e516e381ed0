"""Plan a rebuild, in one of three ways, by how much of the old index is left.

- **mend**: every entry up to the latest can be read. Only the boundary or a checkpoint is written
  again, and no block is read.
- **finish**: an earlier rebuild died after it had written its state. It is finished, and no block
  is read.
- **renew**: the latest entries are lost, or all of them. The blocks are read, a state is composed,
  and a new index begins with it, far above every version that was ever seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from blockstore.bucket.api import Bucket
from blockstore.care.examine import Examined, examine
from blockstore.care.rebuild.compose import compose, define, newest_definition, newest_tags
from blockstore.care.rebuild.decide import Judged, Verdict, decide
from blockstore.care.rebuild.evidence import Evidence, gather
from blockstore.care.survey import Survey, read_checkpoint, survey
from blockstore.care.verify.index import check_index
from blockstore.care.verify.inventory import Inventory, take_inventory
from blockstore.errors import Conflict, Corrupt, Invalid, NewerFormat, NotFound
from blockstore.format.block import BlockKind
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index.checkpoint_name import read_hint
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.watermarks import horizon_at
from blockstore.world import World

_JUMP = 1_000_000
"""The new index begins at the next multiple of this. No process can have written so many entries
since the last known one, and no state remembers the commits of so many, so an operation that was
running counts as collected."""
_SANE = 2**53
_PER_SOURCE = 10
_SLICE = 256


class Way(StrEnum):
    """How the index is rebuilt."""

    FILL_IN = "mend"
    FINISH = "finish"
    RENEW = "renew"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPlan:
    """What a rebuild would do."""

    url: str
    way: Way
    index: Survey = field(repr=False)
    damage: tuple[str, ...]
    """What is wrong with the old index."""
    state: State | None = field(default=None, repr=False)
    """The state that the new index begins with.

    None for ``mend``, and if a person must decide first.
    """
    commit: str = ""
    """The rebuild's own commit id."""
    judged: tuple[Judged, ...] = ()
    notes: tuple[str, ...] = ()
    """What else a person should know."""

    @property
    def stops(self) -> tuple[Judged, ...]:
        """Blocks about which a person must decide before anything is written."""
        return tuple(one for one in self.judged if one.verdict is Verdict.STOP)

    @property
    def unsure(self) -> tuple[Judged, ...]:
        """Blocks whose decision is uncertain."""
        return tuple(one for one in self.judged if not one.sure and one.verdict is not Verdict.STOP)

    @property
    def taken(self) -> tuple[Judged, ...]:
        """Blocks that the new index has."""
        return tuple(one for one in self.judged if one.verdict is Verdict.TAKE)

    @property
    def left(self) -> tuple[Judged, ...]:
        """Blocks that the new index does not have."""
        return tuple(one for one in self.judged if one.verdict is Verdict.LEAVE)


def plan_rebuild(
    bucket: Bucket,
    world: World,
    *,
    leave_out: frozenset[str] = frozenset(),
    take: frozenset[str] = frozenset(),
    properties: Properties | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> RebuildPlan:
    """Read everything that is left, and plan the rebuild.

    Raises Conflict if the index can be read, NotFound if there is no table.

    Args:
        bucket: the table.
        world: the clock, ids and threads.
        leave_out: ULIDs of blocks that the new index must not have.
        take: ULIDs of blocks of changes of rows that count although no entry names them.
        properties: those of the table, used if no definition of it is left.
        advance: called with the number of blocks read.
    """
    inventory = take_inventory(bucket)
    index = survey(bucket, world)
    if not index.indexed and not inventory.directories:
        raise NotFound(
            f"there is no table at {bucket.url}: found neither an index nor a block; check the URL"
        )
    began = _began(index)
    if not began and _is_readable(bucket, world):
        raise Conflict(
            f"the index of {bucket.url} can be read, so it is not rebuilt: a rebuild would lose "
            "its history; check the table with blockstore verify"
        )
    damage = tuple(f"{one.object}: {one.what}" for one in check_index(index, bucket.url))
    if began or index.is_complete:
        if leave_out or take:
            raise Invalid(
                "every entry can still be read, so the index knows its blocks: drop --leave-out "
                "and --take, and revert or mark blocks after the rebuild"
            )
        way = Way.FINISH if began else Way.FILL_IN
        return RebuildPlan(
            url=bucket.url,
            way=way,
            index=index,
            damage=damage,
            state=index.state if began else None,
        )
    return _renew(
        bucket,
        world,
        inventory,
        index,
        damage,
        (leave_out, take),
        properties or Properties(),
        advance,
    )


def _began(index: Survey) -> bool:
    """Return whether a rebuild has written its state and died: only such a state has no commits."""
    state = index.state
    return state is not None and state.version == index.highest and len(state.commits) == 0


def _is_readable(bucket: Bucket, world: World) -> bool:
    try:
        Log(bucket, world).poll()
    except NewerFormat:
        raise
    except (Corrupt, NotFound):
        return False
    return True


def _renew(
    bucket: Bucket,
    world: World,
    inventory: Inventory,
    index: Survey,
    damage: tuple[str, ...],
    chosen: tuple[frozenset[str], frozenset[str]],
    properties: Properties,
    advance: Callable[[float], None],
) -> RebuildPlan:
    evidence = gather(index, _examine_all(bucket, world, inventory, advance))
    judged = decide(evidence, *chosen)
    known = newest_definition(evidence)
    judged = tuple(_without_identity(one) if known is None else one for one in judged)
    unnamed = [
        one.known.meta
        for one in judged
        if one.verdict is Verdict.TAKE and one.known.named is None and one.known.meta is not None
    ]
    definition, strange = define(known, unnamed, properties)
    judged = tuple(_without_schema(one) if one.ulid in strange else one for one in judged)
    tags, lost_tags = _readable_tags(bucket, newest_tags(evidence))
    commit = world.ids.ulid()
    state = None
    if definition is not None and not any(one.verdict is Verdict.STOP for one in judged):
        version = _first_version(bucket, index, evidence, len(unnamed))
        horizon = horizon_at(bucket.now_ms(), definition.properties)
        state = compose(
            evidence,
            judged,
            definition=definition,
            tags=tags,
            version=version,
            commit=commit,
            horizon=horizon,
        )
    return RebuildPlan(
        url=bucket.url,
        way=Way.RENEW,
        index=index,
        damage=damage,
        state=state,
        commit=commit,
        judged=judged,
        notes=_notes(index, evidence, definition, lost_tags),
    )


def _examine_all(
    bucket: Bucket, world: World, inventory: Inventory, advance: Callable[[float], None]
) -> dict[str, Examined]:
    directories = list(inventory.directories.values())
    found: dict[str, Examined] = {}
    for start in range(0, len(directories), _SLICE):
        part = directories[start : start + _SLICE]
        found.update(
            {
                one.ulid: one
                for one in world.pool.map(lambda directory: examine(bucket, directory), part)
            }
        )
        advance(len(part))
    return found


def _without_schema(one: Judged) -> Judged:
    why = (
        "its schema does not belong to this table: neither can read the other's columns; leave it "
        "out"
    )
    return replace(one, verdict=Verdict.STOP, why=why)


def _without_identity(one: Judged) -> Judged:
    meta = one.known.meta
    if one.verdict is not Verdict.TAKE or meta is None or meta.kind is BlockKind.PLAIN:
        return one
    why = (
        "it holds changes of rows, and the definition of the table, which says what identifies a "
        "row, is lost: restore an entry or a checkpoint from a copy"
    )
    return replace(one, verdict=Verdict.STOP, why=why)


def _readable_tags(bucket: Bucket, tags: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    kept, lost = {}, {}
    for name, version in tags.items():
        try:
            read_checkpoint(bucket, version)
            kept[name] = version
        except Corrupt:
            lost[name] = version
    return kept, lost


def _first_version(bucket: Bucket, index: Survey, evidence: Evidence, fresh: int) -> int:
    """Return the version of the new state, above every version that may ever have existed, with
    room below it for one of each block that no entry names."""
    hint = read_hint(bucket)
    sources = sum(len(one.meta.sources) for one in evidence.blocks.values() if one.meta is not None)
    seen = max(
        index.highest, hint.id if hint is not None and hint.id < _SANE else 0, _PER_SOURCE * sources
    )
    return ((seen + fresh) // _JUMP + 1) * _JUMP


def _notes(
    index: Survey, evidence: Evidence, definition: Definition | None, lost_tags: dict[str, int]
) -> tuple[str, ...]:
    notes = []
    if not index.indexed:
        notes.append(
            "there is no trace of an index: if this table never had one, it will have one, and "
            "every process that uses it must be restarted"
        )
    if definition is None:
        notes.append(
            "no complete block or entry has the table's columns: restore the index from a copy"
        )
    elif newest_definition(evidence) is None:
        notes.append(
            "the definition is derived from the blocks: set its properties again with blockstore "
            "alter, and check its sort key and default labels"
        )
    if evidence.state is None:
        notes.append(
            "earlier versions, tags and reverts are lost; rows that a revert had hidden are "
            "visible again"
        )
    else:
        notes.append(
            f"version {evidence.state.version} is the last that can be read; what came after it is "
            "derived from the blocks"
        )
    notes.append(
        "rows that were deleted, replaced or expired recently may be visible again: their blocks "
        "do not show it until the compactor has marked them"
    )
    for name, version in sorted(lost_tags.items()):
        notes.append(f"tag {name!r} is dropped: the checkpoint of version {version} cannot be read")
    return tuple(notes)
