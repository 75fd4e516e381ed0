"""One run of one seed: a table, its processes, so many steps of trouble, and then an end in peace.

The end: no fault strikes any longer, what is on its way arrives, all processes finish what was
begun; time passes and those that tend the table continue, until nothing is left for them to do.
Then what must be left is compared with what is.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from blockstore.care.marks import Marker, MarkKind
from blockstore.format.properties import Isolation, Properties
from blockstore.index import log as index_log
from blockstore.operations.tree import move_to_tree
from blockstore.simulation.bucket import SimulatedBucket
from blockstore.simulation.damage import strike
from blockstore.simulation.draw import Draw
from blockstore.simulation.ground import Kind
from blockstore.simulation.oracle.end import check_end, leftovers, outsider, quarantined
from blockstore.simulation.process import Process, Role
from blockstore.simulation.replaced_history import Replacements, definition_of, is_replaced
from blockstore.simulation.report import Report
from blockstore.simulation.schedule import HOUR_MS, START_MS
from blockstore.simulation.stage import Stage
from blockstore.simulation.violation import Violation

_IDENTITIES = 1 / 3
"""How many of the tables with an index have rows with an identity."""
_PATIENCE = 4_000
"""So many steps may pass until all processes have finished,"""
_LOOKS = 20
"""and so many more for each object in the bucket: all rest until those that tend the table have
looked at them all."""
_ROUNDS = 60
"""So many rounds of cleaning, three hours apart, must be enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a run."""

    seed: int
    kind: Kind
    steps: int
    simulated_ms: int
    digest: str
    report: Report = field(repr=False)
    problem: str | None = None
    tail: Sequence[str] = field(default=(), repr=False)


def run(
    seed: int,
    steps: int,
    roles: Sequence[Role],
    *,
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE,
    tree: bool = False,
) -> Outcome:
    """Run one seed, on a table of this isolation; with ``tree`` its index is in leaves."""
    stage = _stage(seed, isolation)
    processes = [
        Process(stage, role, number, SimulatedBucket) for role, number in _drawn(stage, roles)
    ]
    silenced = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        _create(stage, processes[0], tree=tree)
        for process in processes:
            process.start()
        _play(stage, processes, steps)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        stage.scheduler.failure = stage.scheduler.failure or error
    finally:
        stage.scheduler.stop()
        logging.disable(silenced)
    failure = stage.scheduler.failure
    return Outcome(
        seed=seed,
        kind=stage.kind,
        steps=stage.scheduler.steps,
        simulated_ms=stage.scheduler.now_ms - START_MS,
        digest=stage.trace.digest,
        report=stage.report,
        problem=None if failure is None else _described(failure),
        tail=() if failure is None else stage.trace.tail(START_MS),
    )


def kind_of(seed: int) -> Kind:
    """What kind of table a seed's run is about."""
    kind = _kind(Draw(seed, "table"))
    draw = Draw(seed, "identity")
    if kind is Kind.LISTED or not draw.chance(_IDENTITIES):
        return kind
    return draw.choice([Kind.WITH_IDS, Kind.KEYED])


def _kind(draw: Draw) -> Kind:
    return Kind.LISTED if draw.chance(0.25) else Kind.INDEXED


def _stage(seed: int, isolation: Isolation) -> Stage:
    """One run in four is about a table without an index, and every other of those is on an eventual
    store; one run in three of the others about rows that have an identity."""
    draw, kind = Draw(seed, "table"), kind_of(seed)
    _kind(draw)
    eventual = kind is Kind.LISTED and draw.chance(0.5)
    properties = Properties.parse(
        {
            "consistency": "eventual" if eventual else "strong",
            "sync_delay": draw.choice(["6m", "15m"]),
            "delete_delay": draw.choice(["2h", "6h"]),
            "partial_delay": "25h",
            "history_retention": draw.choice(["1h", "5h"]),
            "retention": draw.choice(["none", "none", "none", "4d"]),
            "isolation": isolation,
            **_history(seed, kind),
        }
    )
    return Stage.of(seed, kind, properties)


def _history(seed: int, kind: Kind) -> dict[str, str]:
    """For how long former versions of rows are kept."""
    if not kind.has_identity:
        return {}
    return {"row_history": Draw(seed, "history").choice(["none", "forever", "forever", "30h"])}


def _drawn(stage: Stage, roles: Sequence[Role]) -> list[tuple[Role, int]]:
    """The roles: those that tend the table always, of the others some, and of each one or more."""
    draw = Draw(stage.seed, "roles")
    fit = [role for role in roles if stage.kind in role.kinds]
    chosen = [role for role in fit if role.tends or draw.chance(_share(role, stage.kind))]
    if all(role.tends for role in chosen):
        chosen = [*chosen, fit[0]]
    return [
        (role, number) for role in chosen for number in range(1, draw.integer(1, role.count) + 1)
    ]


def _share(role: Role, kind: Kind) -> float:
    """In how many runs of a kind a role plays: where rows change, those half as often that do not
    care, so that there are many changes."""
    cares = all(one.has_identity for one in role.kinds)
    return role.share / 2 if kind.has_identity and not cares else role.share


def _create(stage: Stage, first: Process, *, tree: bool) -> None:
    """The table, before any trouble begins."""
    stage.definition = definition_of(stage)
    if stage.kind.has_index:
        if is_replaced(stage.seed):
            stage.replacements = Replacements(stage, Draw(stage.seed, "replacements"))
        log = index_log.create(stage.store, first.world, stage.definition)
        if tree:
            move_to_tree(log, first.world)


def _play(stage: Stage, processes: Sequence[Process], steps: int) -> None:
    scheduler = stage.scheduler

    def dawn() -> None:
        for process in processes:
            process.dawn()
        if stage.replacements is not None:
            stage.replacements.at_night()

    scheduler.at_night = dawn
    scheduler.run(lambda: scheduler.steps >= steps)
    _peace(stage, processes)
    others = [process for process in processes if not process.role.tends]
    patience = _patience(stage)
    limit = scheduler.steps + patience
    scheduler.run(lambda: scheduler.steps >= limit or all(process.has_ended for process in others))
    _check(stage)
    late = [process.name for process in others if not process.has_ended]
    if late:
        raise Violation(f"{', '.join(late)} did not finish within {patience} steps without faults")
    while scheduler.on_their_way:
        scheduler.pass_time(HOUR_MS)
    _tidy(stage, [process for process in processes if process.role.tends])
    check_end(stage)
    strike(stage)


def _patience(stage: Stage) -> int:
    """How many steps without faults must be enough for all processes."""
    return _PATIENCE + _LOOKS * sum(1 for _ in stage.store.list(""))


def _peace(stage: Stage, processes: Sequence[Process]) -> None:
    stage.finishing = True
    stage.faults.on = False
    stage.scheduler.peace = True
    for process in processes:
        process.stalled_until = process.silent_until = 0


def _tidy(stage: Stage, tenders: Sequence[Process]) -> None:
    """Let the processes that tend the table continue until nothing is left to be done."""
    scheduler = stage.scheduler
    if not tenders:
        return
    for _ in range(_ROUNDS):
        _do_a_persons_part(stage)
        left = leftovers(stage)
        if not left:
            return
        done = {process.name: process.passes for process in tenders}
        limit = scheduler.steps + _patience(stage)
        scheduler.run(
            lambda done=done, limit=limit: (  # type: ignore[misc]
                scheduler.steps >= limit
                or all(process.passes > done[process.name] for process in tenders)
            )
        )
        _check(stage)
        scheduler.pass_time(3 * HOUR_MS)
    raise Violation(f"after {_ROUNDS} rounds of cleaning there is still {'; '.join(left[:5])}")


def _do_a_persons_part(stage: Stage) -> None:
    """What a person does: removes entries above a gap, and has blocks removed that contradict
    themselves."""
    if stage.replacements is not None:
        stage.replacements.mend()
    table = outsider(stage)
    marker = Marker(
        bucket=stage.store,
        world=table.world,
        log=table.log_or_none,
        properties=table.definition.properties,
        catalog=table.catalog,
    )
    for ulid in quarantined(stage):
        stage.ledger.condemned.add(ulid)
        # A removal that has looked at the old mark does not meet the new one: the look and the
        # DELETE are two requests (R8).
        stage.judge.directories.forced.add(ulid)
        marker.withdraw(ulid, MarkKind.DELETION)
        marker.delete(ulid, "what is left of an upload")


def _check(stage: Stage) -> None:
    failure = stage.scheduler.failure
    if failure is not None:
        raise (
            failure
            if isinstance(failure, Exception)
            else AssertionError(f"a thread ended by {failure!r}")
        )


def _described(failure: BaseException) -> str:
    """A broken promise in its words; anything else with the place where it was raised."""
    if isinstance(failure, Violation):
        return str(failure)
    lines = traceback.format_exception(failure)
    return "".join(lines[-12:])
