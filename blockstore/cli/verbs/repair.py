"""``blockstore repair``: show what a repair would do and which rows it would lose, and do it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

from blockstore.bucket import open_bucket
from blockstore.care.repair import Done, RepairOptions, RepairPlan, StepKind, carry_out, plan_repair
from blockstore.care.repair.target import Target
from blockstore.cli.failure import complain
from blockstore.cli.opening import Property, open_with
from blockstore.cli.options import Json, Many
from blockstore.cli.output import Cell, Column, count, counted, iso, say, show_json, show_table
from blockstore.errors import Corrupt, NewerFormat
from blockstore.world import World

_COLUMNS = (
    Column("does", "STEP"),
    Column("object", "OBJECT", fold=True),
    Column("lost", "ROWS LOST", right=True),
    Column("what", "", fold=True),
)
_HOW = "--yes repairs all of this, --block ULID only that block"
Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
Ulids: TypeAlias = Annotated[Many, Parameter(negative="")]


def repair(
    url: str,
    /,
    *,
    block: Ulids = (),
    adopt: Ulids = (),
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    drop_damaged: Flag = False,
    deep: Flag = False,
    stale_entry: int | None = None,
    wait: Flag = False,
    dry_run: Flag = False,
    yes: Flag = False,
    property_: Property = (),
    json: Json = False,
) -> int:
    """Repair what verify has found.

    Without options it checks the table and shows a plan; --yes carries the plan out. With --block
    or --adopt it acts at once on the named blocks; --dry-run shows the plan only. Damaged bytes are
    replaced from a replica (--from). Rows are lost only with --drop-damaged. The exit code is 1 if
    a step failed.

    Parameters
    ----------
    url
        The table.
    block
        Check this block byte by byte, and repair it.
    adopt
        Accept a block that arrived too late for the index: its rows become a new write.
    from_
        The URL of a replica of the table, from which good bytes are copied.
    drop_damaged
        Give up the rows of files of which no good copy is left. The plan says how many.
    deep
        Also check the bytes of every file, as verify --deep does.
    stale_entry
        The number of an index entry above a gap. A writer can leave one when a table is restored
        from a copy while it runs. The entry is shown, and removed with --yes.
    wait
        Without an index a repair waits sync_delay before it reads. Wait here, instead of ending and
        having to be run again.
    dry_run
        Only show the plan.
    yes
        Carry the plan out.
    property_
        For a table without an index: its delays, `name=value`, such as sync_delay=15m.
    json
        Print JSON.
    """
    world = World.real()
    bucket = open_bucket(url, world)
    options = RepairOptions(
        blocks=tuple(ulid.upper() for ulid in block),
        adopt=tuple(ulid.upper() for ulid in adopt),
        replica=None if from_ is None else open_bucket(from_, world),
        drop_damaged=drop_damaged,
        deep=deep,
        stale_entry=stale_entry,
    )
    target = _target(url, property_)
    plan = plan_repair(bucket, world, target, options)
    acting = plan.acts and not dry_run and (yes or options.named)
    done = tuple(carry_out(bucket, target, plan, wait=wait)) if acting else ()
    if json:
        show_json(_json(plan, done))
    else:
        _show(plan, done, acting=acting, named=options.named)
    failed = sum(one.failed for one in done)
    return (
        complain(f"{counted(failed, 'step')} of {plan.url} failed: run the repair again")
        if failed
        else 0
    )


def _target(url: str, properties: Many) -> Target | None:
    """Open the table; None if its index cannot be read: then only the index can be repaired."""
    try:
        table = open_with(url, properties)
    except NewerFormat:
        raise
    except Corrupt:
        return None
    return Target(
        bucket=table.bucket,
        world=table.world,
        log=table.log_or_none,
        definition=table.definition,
        catalog=table.catalog,
    )


def _show(plan: RepairPlan, done: tuple[Done, ...], *, acting: bool, named: bool) -> None:
    if not plan.steps:
        say(f"nothing to repair in {plan.url}")
        return
    show_table(_COLUMNS, [_row(plan, place) for place in range(len(plan.steps))])
    if acting:
        for one in done:
            later = (
                "" if one.ready_ms is None else f"; run this again at {iso(one.ready_ms)} or later"
            )
            say(f"{one.step.object}: {one.summary}{later}")
    elif plan.acts:
        lost = f", {counted(plan.rows_lost, 'row')} would be lost" if plan.rows_lost else ""
        how = "run it without --dry-run to do this" if named else _HOW
        say(f"nothing was changed{lost}: {how}")


def _row(plan: RepairPlan, place: int) -> dict[str, str]:
    step = plan.steps[place]
    return {
        "does": "nothing" if step.kind is StepKind.PERSON else str(step.kind),
        "object": step.object,
        "lost": count(step.rows_lost) if step.rows_lost else "",
        "what": step.what,
    }


def _json(plan: RepairPlan, done: tuple[Done, ...]) -> dict[str, Cell]:
    return {
        "url": plan.url,
        "rows_lost": plan.rows_lost,
        "plan": [
            {
                "does": str(one.kind),
                "object": one.object,
                "rows_lost": one.rows_lost,
                "what": one.what,
            }
            for one in plan.steps
        ],
        "done": [
            {
                "object": one.step.object,
                "told": one.summary,
                "failed": one.failed,
                "block": one.ulid,
                "version": one.version,
                "again": None if one.ready_ms is None else iso(one.ready_ms),
            }
            for one in done
        ],
    }
