"""A user who requests what is impossible: every mistake raises the right error, which says what to
do, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from blockstore.errors import (
    BlockCondemned,
    BlockstoreError,
    Conflict,
    Indeterminate,
    Invalid,
    NotFound,
    Unavailable,
)
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.tags import TEMPORARY
from blockstore.simulation.actors.doors import DISTURBED, met, open_table
from blockstore.simulation.ground import Kind
from blockstore.simulation.process import Process, Role
from blockstore.simulation.rows import SCHEMA, batches_of
from blockstore.simulation.violation import Violation
from blockstore.table import Table

_APP = "bungler"
_FUTURE = 1_000_000


def bungle(process: Process, thread: int) -> None:
    """One life of a bungler."""
    conflicts = [item for item in _MISTAKES.items() if item[1] is Conflict]
    mistakes = [*_MISTAKES.items(), *conflicts, *conflicts]
    while not process.finishing:
        mistake, expected = process.draw.choice(mistakes)
        table = open_table(process)
        try:
            answer = mistake(process, table)
        except (expected, *DISTURBED) as error:
            met(process, error)
        except (Unavailable, Indeterminate, BlockCondemned) as error:
            # The store did not respond, or a machine fell asleep over an upload: the mistake has no
            # result yet.
            met(process, error)
        except BlockstoreError as error:
            if process.struck:
                met(process, error)
                continue
            raise Violation(
                f"{mistake.__name__} got {error!r}, expected {expected.__name__}"
            ) from error
        else:
            if answer is not None and not process.struck:
                raise Violation(
                    f"{mistake.__name__} returned {answer!r}, expected {expected.__name__}"
                )
        process.rest(till_morning=process.draw.chance(0.2))


def tag_by_a_number(process: Process, table: Table) -> object:
    """A tag's name cannot be a number."""
    return table.tag("17")


def tag_a_future_version(process: Process, table: Table) -> object:
    """Only what was written can be tagged."""
    return table.tag("tomorrow", version=_FUTURE)


def tag_under_a_taken_name(process: Process, table: Table) -> object:
    """A tag names one version; None where there is no tag to be taken."""
    state = table.log.poll()
    others = [
        name
        for name, version in sorted(state.tags.items())
        if version != state.version and not name.startswith(TEMPORARY)
    ]
    if not others:
        return None
    name = process.draw.choice(others)
    version = table.tag(name, version=state.version)
    # Somebody took the tag away in the middle, and now it is ours.
    table.untag(name)
    return None if version == state.version else version


def untag_what_is_no_tag(process: Process, table: Table) -> object:
    """There must be such a tag."""
    table.untag("yesterday")
    return "untagged"


def create_again(process: Process, table: Table) -> object:
    """There is a table already."""
    return index_log.create(process.bucket, process.world, Definition.create(SCHEMA))


def append_too_few_columns(process: Process, table: Table) -> object:
    """Every column must be there."""
    return table.append(pa.table({"write": pa.array([0], pa.int64())}))


def overwrite_beyond_the_condition(process: Process, table: Table) -> object:
    """Every new row must meet the condition."""
    write = process.stage.ledger.write(process.stage.scheduler.now_ms)
    return table.overwrite(batches_of(write, table.definition.schema), where="key = 100")


def delete_by_an_unknown_column(process: Process, table: Table) -> object:
    """A condition names columns of the table."""
    return table.delete("price > 3")


def revert_an_unknown_write(process: Process, table: Table) -> object:
    """Only what was written can be reverted."""
    return table.revert(process.world.ids.ulid())


def restore_a_future_version(process: Process, table: Table) -> object:
    """Only what was written can be restored."""
    return table.restore(version=_FUTURE)


def look_before_the_beginning(process: Process, table: Table) -> object:
    """There was no table then, or what was there is collected."""
    return table.snapshot(as_of=1_000)


def alter_nothing(process: Process, table: Table) -> object:
    """An alter changes something."""
    return table.alter()


def commit_a_lower_batch(process: Process, table: Table) -> object:
    """Batches are numbered upwards. None while the higher one is not committed."""
    app = f"{_APP} {process.number}"
    done = table.log.poll().batches.get(app)
    if done is None:
        write = process.stage.ledger.write(process.stage.scheduler.now_ms, Job(app, 9))
        table.append(batches_of(write, table.definition.schema), job=write.job)
        return None
    lower = process.stage.ledger.write(process.stage.scheduler.now_ms, Job(app, 3))
    return table.append(batches_of(lower, table.definition.schema), job=lower.job)


_MISTAKES: Mapping[Callable[[Process, Table], object], type[BlockstoreError]] = {
    tag_by_a_number: Invalid,
    tag_a_future_version: NotFound,
    tag_under_a_taken_name: Conflict,
    untag_what_is_no_tag: NotFound,
    create_again: Conflict,
    append_too_few_columns: Invalid,
    overwrite_beyond_the_condition: Invalid,
    delete_by_an_unknown_column: Invalid,
    revert_an_unknown_write: NotFound,
    restore_a_future_version: NotFound,
    look_before_the_beginning: NotFound,
    alter_nothing: Invalid,
    commit_a_lower_batch: Invalid,
}

BUNGLER = Role(name="bungler", act=bungle, kinds=(Kind.INDEXED,), share=0.8)
