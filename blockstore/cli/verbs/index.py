"""``blockstore index rebuild``: rebuild a lost index, after showing what is certain and what is
not. ``blockstore index tree``: store the index of a large table in leaves."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from blockstore.bucket import open_bucket
from blockstore.care.rebuild import RebuildPlan, Rebuilt, plan_rebuild
from blockstore.care.rebuild import rebuild as carry_out
from blockstore.care.rebuild.decide import Judged
from blockstore.care.rebuild.plan import Way
from blockstore.cli.failure import complain
from blockstore.cli.opening import Property, delays
from blockstore.cli.options import Json, Many
from blockstore.cli.output import Cell, Column, count, counted, say, show_json, show_table
from blockstore.format.features import TREE
from blockstore.index.log import Log
from blockstore.operations.tree import move_to_tree
from blockstore.world import World

_COLUMNS = (
    Column("verdict", ""),
    Column("ulid", "BLOCK"),
    Column("rows", "ROWS", right=True),
    Column("why", "WHY", fold=True),
)
_WAYS = {
    Way.FILL_IN: "every entry can be read: only the boundary or a checkpoint is written again, and "
    "nothing is lost",
    Way.FINISH: "an earlier rebuild stopped after it had written its state: this one finishes it",
    Way.RENEW: "the latest entries are lost: a new index is built from the entries that can be "
    "read and from the blocks",
}
Flag: TypeAlias = Annotated[bool, Parameter(negative="")]


def index(
    action: Literal["rebuild", "tree"],
    url: str,
    /,
    *,
    leave_out: Annotated[Many, Parameter(negative="")] = (),
    take: Annotated[Many, Parameter(negative="")] = (),
    dry_run: Flag = False,
    yes: Flag = False,
    property_: Property = (),
    message: str = "",
    json: Json = False,
) -> int:
    """Rebuild a lost index, or store that of a large table in leaves. Without --yes nothing is
    changed.

    Before a rebuild stop every process that uses the table, and copy the folders index/ and gc/
    elsewhere. It is refused while the index can be read.

    `tree` makes the checkpoints of a table small, from the next version on: each names leaves of
    about a thousand blocks, which it shares with others. Earlier releases refuse the table then,
    by name. There is no way back.

    Parameters
    ----------
    action
        `rebuild` or `tree`.
    url
        The table.
    leave_out
        A block to leave out of the new index. May be given several times.
    take
        A block of changes of rows that counts although no entry names it. May be given several
        times.
    dry_run
        Only show the plan, as without --yes.
    yes
        Carry the plan out.
    property_
        A property of the table, `name=value`. Used if no definition of the table is left.
    message
        A comment for the history.
    json
        Print JSON.
    """
    world = World.real()
    bucket = open_bucket(url, world)
    if action == "tree":
        return _tree(Log(bucket, world), world, message, yes=yes and not dry_run, json=json)
    plan = plan_rebuild(
        bucket,
        world,
        leave_out=frozenset(ulid.upper() for ulid in leave_out),
        take=frozenset(ulid.upper() for ulid in take),
        properties=delays(property_),
    )
    ready = plan.way is Way.FILL_IN or plan.state is not None
    done = (
        carry_out(bucket, world, plan, message=message) if yes and not dry_run and ready else None
    )
    if json:
        show_json(_json(plan, done))
    else:
        _show(plan, done)
    if ready:
        return 0
    stops = counted(len(plan.stops), "block")
    return complain(
        f"decide about {stops} first: repair them, leave them out with --leave-out ULID, or take "
        "changes of rows with --take ULID"
        if plan.stops
        else f"the columns of the table at {plan.url} are not known: restore its index from a copy"
    )


def _tree(log: Log, world: World, message: str, *, yes: bool, json: bool) -> int:
    blocks, already = len(log.poll().blocks), TREE in log.state.requires
    version = move_to_tree(log, world, message=message) if yes else None
    if json:
        show_json({"table": log.bucket.url, "blocks": blocks, "moved": version, "was": already})
    elif already:
        say(f"the index of {log.bucket.url} is in leaves already")
    elif version is None:
        say(
            f"nothing was changed: the index of {log.bucket.url} names {counted(blocks, 'block')}; "
            "--yes stores it in leaves, and earlier releases refuse the table then"
        )
    else:
        say(f"{log.bucket.url} has its index in leaves from version {version} on")
    return 0


def _show(plan: RebuildPlan, done: Rebuilt | None) -> None:
    for line in plan.damage:
        say(f"damage: {line}")
    say(_WAYS[plan.way])
    if plan.judged:
        show_table(_COLUMNS, [_row(one) for one in (*plan.stops, *plan.unsure, *_certain(plan))])
    for line in plan.notes:
        say(f"note: {line}")
    if done is not None:
        say(
            f"rebuilt: version {done.version}, boundary {done.boundary}, "
            f"{counted(done.blocks, 'block')}; start the processes again, and check the table with "
            "blockstore verify"
        )
    elif plan.judged:
        unsure = f", {len(plan.unsure)} of them uncertain" if plan.unsure else ""
        say(
            f"nothing was changed: the new index would have {counted(len(plan.taken), 'block')}"
            f"{unsure}; --yes builds it"
        )
    else:
        say("nothing was changed: --yes carries the plan out")


def _certain(plan: RebuildPlan) -> list[Judged]:
    notes = {one.ulid for one in (*plan.stops, *plan.unsure)}
    return [one for one in plan.judged if one.ulid not in notes]


def _row(one: Judged) -> dict[str, str]:
    return {
        "verdict": str(one.verdict) + ("" if one.sure else "?"),
        "ulid": one.ulid,
        "rows": "" if one.rows is None else count(one.rows),
        "why": one.why,
    }


def _json(plan: RebuildPlan, done: Rebuilt | None) -> dict[str, Cell]:
    return {
        "url": plan.url,
        "way": str(plan.way),
        "damage": list(plan.damage),
        "notes": list(plan.notes),
        "blocks": [
            {
                "ulid": one.ulid,
                "verdict": str(one.verdict),
                "sure": one.sure,
                "rows": one.rows,
                "why": one.why,
            }
            for one in plan.judged
        ],
        "done": None
        if done is None
        else {"version": done.version, "boundary": done.boundary, "blocks": done.blocks},
    }
