"""A person who tags, marks and alters, and who removes the tags of processes that died."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from blockstore.care.examine import examine, list_directory
from blockstore.care.marks import Marker, MarkKind
from blockstore.errors import BlockstoreError, Conflict, NotFound, VersionExpired
from blockstore.format.marks import MarkReason
from blockstore.index.tags import TEMPORARY
from blockstore.lifecycle.mark import place_deletion
from blockstore.names import DELETION_MARK
from blockstore.simulation.actors.doors import DISTURBED, met, open_table, until_answered
from blockstore.simulation.process import Process, Role
from blockstore.simulation.violation import Violation
from blockstore.table import Table

_MOST_COLUMNS = 3


def keep_order(process: Process, thread: int) -> None:
    """One life of a librarian."""
    table = open_table(process)
    deeds: list[Callable[[Process, Table], None]] = [_mark, _keep_from_merges]
    if table.indexed:
        deeds += [_tag, _tag, _untag, _untag, _contest, _alter, _clear]
    while not process.finishing:
        try:
            process.draw.choice(deeds)(process, open_table(process))
        except BlockstoreError as error:
            met(process, error)
        process.rest(till_morning=process.draw.chance(0.3))
    while table.indexed and _has_tags(process):
        _clear(process, open_table(process))


def _tag(process: Process, table: Table) -> None:
    """Tag a version, or one again of which it is not known what became of it."""
    history = process.stage.judge.history
    assert history is not None
    doubts: dict[str, int] = process.notes.setdefault("doubts", {})
    if not doubts:
        count = process.notes["tags"] = process.notes.get("tags", 0) + 1
        latest = history.latest.state.version
        doubts[f"{process.name} {count}"] = process.draw.integer(
            max(1, history.boundary - 1), latest
        )
    name, version = next(iter(doubts.items()))
    try:
        table.tag(name, version=version)
    except (NotFound, *DISTURBED) as error:
        met(process, error)
        expired = isinstance(error, VersionExpired)
        if expired and version > history.boundary and not process.struck:
            raise Violation(
                f"version {version} was called expired, the boundary is {history.boundary}"
            ) from error
        _untag_quietly(process, table, name)
        del doubts[name]
        return
    del doubts[name]
    if not process.struck:
        history.keep(name, version)


def _contest(process: Process, table: Table) -> None:
    """Request a tag that is set on another version: a conflict, whatever the store does
    meanwhile."""
    tags = {
        name: version
        for name, version in table.log.poll().tags.items()
        if not name.startswith(TEMPORARY)
    }
    if not tags:
        return
    name = process.draw.choice(sorted(tags))
    history = process.stage.judge.history
    assert history is not None
    if tags[name] == history.latest.state.version:
        return
    try:
        table.tag(name)
    except Conflict as error:
        met(process, error)
        return
    if process.struck:
        return
    if tags[name] == history.kept.get(name):
        raise Violation(
            f"tag {name!r} keeps version {tags[name]}, and was given to another version as well"
        )


def _untag(process: Process, table: Table) -> None:
    tags = [name for name in sorted(table.log.poll().tags) if not name.startswith(TEMPORARY)]
    if tags:
        table.untag(process.draw.choice(tags))


def _clear(process: Process, table: Table) -> None:
    """Take away the tags that restores left behind; at the end of the run, all."""
    for name in sorted(table.log.poll().tags):
        if process.finishing or name.startswith(TEMPORARY):
            _untag_quietly(process, table, name)


def _untag_quietly(process: Process, table: Table, name: str) -> None:
    try:
        table.untag(name)
    except BlockstoreError as error:
        met(process, error)


def _has_tags(process: Process) -> bool:
    process.rest()
    return bool(
        until_answered(process, lambda: open_table(process).log.poll(), disturbed=True).tags
    )


def _alter(process: Process, table: Table) -> None:
    names = table.definition.schema.names
    if len(names) < 4 + _MOST_COLUMNS:
        table.alter(add=[pa.field(f"note_{len(names)}_{process.stage.era}", pa.int64())])


def _mark(process: Process, table: Table) -> None:
    """Have a block deleted: by an entry where an index names it, by the mark itself where there is
    none."""
    if not process.draw.chance(0.3):
        return
    ulid = _some_block(process, table)
    if ulid is not None:
        process.stage.judge.condemn(ulid)
        if table.indexed or process.draw.chance(0.5):
            _marker(table).delete(ulid, "by hand")
        else:
            _hide_at_once(table, ulid)


def _hide_at_once(table: Table, ulid: str) -> None:
    """As people did with earlier releases, whatever is being merged: a cleaner must cope with such
    marks. Those of this release, which wait and look again, meet fewer overlaps."""
    found = examine(table.bucket, list_directory(table.bucket, ulid))
    if found.directory.objects and DELETION_MARK not in found.directory.objects:
        place_deletion(table.bucket, table.world, ulid, MarkReason.MANUAL, "by hand")


def _keep_from_merges(process: Process, table: Table) -> None:
    ulid = _some_block(process, table)
    if ulid is None:
        return
    if process.draw.chance(0.5):
        _marker(table).keep_from_merges(ulid, "by hand")
    else:
        _marker(table).withdraw(ulid, MarkKind.NO_COMPACT)


def _some_block(process: Process, table: Table) -> str | None:
    """A block that readers read now."""
    if table.indexed:
        ulids = table.log.poll().blocks.ulids()
    else:
        ulids = [block.meta.ulid for block in table.snapshot().snapshot.listed]
    return process.draw.choice(ulids) if ulids else None


def _marker(table: Table) -> Marker:
    return Marker(
        bucket=table.bucket,
        world=table.world,
        log=table.log_or_none,
        properties=table.definition.properties,
        catalog=table.catalog,
    )


LIBRARIAN = Role(name="librarian", act=keep_order, share=0.9)
