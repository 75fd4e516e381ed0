"""``alter``: add columns, widen types, change properties - one entry, and no block is touched.

Invariant: the definition that the caller looked at is the one that is replaced. If another one is
in the index by then, the operation conflicts and says in which version it changed. Old blocks are
read under the newer schema: added columns as nulls, widened ones as the wider type.

A column that would hide a label, having its name, is refused: by the labels of the state that the
entry follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from blockstore.errors import Conflict, Invalid
from blockstore.format.definition import Definition, evolve
from blockstore.format.labels import labels_like
from blockstore.format.texts import check_text
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.operations.writer import MAX_MESSAGE
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World


@dataclass(kw_only=True)
class Alter(Change):
    """Replace the definition ``read`` by ``wanted``."""

    operation: Operation = Operation.ALTER
    commit: str
    read: Definition
    wanted: Definition
    read_version: int
    message: str = ""

    def draft(self, state: State) -> Draft:
        if state.definition != self.read:
            raise Conflict(
                f"the table's definition was changed after version {self.read_version}, which "
                f"this alter has read, and the table is at version {state.version} now: look at it "
                "again and alter again"
            )
        _check_no_label_is_hidden(self.read, self.wanted, Snapshot.of(state).label_names)
        return Draft(table=self.wanted, read_version=self.read_version, message=self.message)


def alter(
    log: Log,
    world: World,
    *,
    add: Iterable[pa.Field] = (),
    widen: Mapping[str, pa.DataType] | None = None,
    properties: Mapping[str, object] | None = None,
    message: str = "",
) -> Definition:
    """Commit the altered definition and return it.

    Raises Invalid if values could be lost, or nothing changes.
    """
    check_text("the message", message, limit=MAX_MESSAGE)
    state = log.poll()
    read = state.definition
    wanted = altered(
        read, Snapshot.of(state).label_names, add=add, widen=widen, properties=properties
    )
    log.commit(
        Alter(
            commit=world.ids.ulid(),
            read=read,
            wanted=wanted,
            read_version=state.version,
            message=message,
        )
    )
    return wanted


def altered(
    read: Definition,
    labels: Iterable[str] = (),
    *,
    add: Iterable[pa.Field] = (),
    widen: Mapping[str, pa.DataType] | None = None,
    properties: Mapping[str, object] | None = None,
) -> Definition:
    """The definition with these changes; ``labels`` are those of the table's blocks. Pure; raises
    Invalid if values could be lost, or nothing changes."""
    added = list(add)
    wanted = evolve(read, add=added, widen=dict(widen or {})) if added or widen else read
    if properties:
        wanted = replace(wanted, properties=wanted.properties.changed(properties))
    if wanted == read:
        raise Invalid(
            "alter changes nothing: name columns to add or to widen, or properties with other "
            "values"
        )
    _check_no_label_is_hidden(read, wanted, labels)
    return wanted


def _check_no_label_is_hidden(read: Definition, wanted: Definition, labels: Iterable[str]) -> None:
    added = [name for name in wanted.schema.names if name not in read.schema.names]
    hiding = labels_like(added, {*labels, *read.labels})
    if hiding:
        raise Invalid(
            f"column {hiding[0]!r} has the name of a label of the table, apart from upper and "
            "lower case, and would hide it: choose another name"
        )
