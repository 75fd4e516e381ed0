"""Changes that are planned on a version, written, and committed; planned again where rows that
they read were changed meanwhile.

Rules:
- Nothing of an operation is visible before its entry; after an error what was uploaded is debris.
- Where only other rows changed, nothing is planned again; where the operation is ``serializable``,
  only if none of them would have been read (``seen.py``).
- An operation that finds nothing to do has read one version, and holds for that one. If it is a
  job, an entry without rows takes its batch.
- A condemned block is uploaded again under a new ULID that keeps its source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from blockstore.errors import BlockCondemned, Invalid, RowConflict
from blockstore.format.block import BlockMeta, Job
from blockstore.format.definition import Definition
from blockstore.format.identity import Identity, RowIds
from blockstore.format.properties import Isolation
from blockstore.index.change import Done, Nothing
from blockstore.index.entry import Operation
from blockstore.index.rules import batch_done
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.staging import RENEWALS, renewed, uploading
from blockstore.rows.change import Absent, ChangeRows, NamedRows
from blockstore.rows.results import RowsChanged
from blockstore.rows.seen import Seen
from blockstore.rows.streams import StreamChanges

_PLANS = 50
"""So often an operation is planned before its rows are said to change too fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a caller says of an operation beside its rows."""

    job: Job | None = None
    ordered: bool = True
    labels: Mapping[str, str] | None = None
    message: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    buffer_bytes: int = 256 << 20
    """Rows of about so many bytes in memory become one chunk."""
    isolation: Isolation | None = None
    """None: the table's."""

    def seeing(self, definition: Definition) -> Seen | None:
        """What keeps the reads of an operation on a table whose rows have an identity, where its
        isolation is ``serializable``; else None."""
        isolation = self.isolation or definition.properties.isolation
        if isolation is not Isolation.SERIALIZABLE or definition.identity is None:
            return None
        return Seen(definition.identity)


Write = Callable[[State, StreamChanges], RowsChanged]
"""Writes the changes of an operation, planned on a state; returns what they do. ``version`` and
``blocks`` are filled in."""

Reads = bool | Callable[[State], bool]
"""Whether an operation reads rows on which its changes depend; perhaps it depends on the state."""


def identity_of(definition: Definition, what: str) -> Identity:
    """The identity of a table's rows. Raises Invalid where they have none."""
    if definition.identity is None:
        raise Invalid(
            f"{what} changes rows, and the rows of this table have no identity: create the table "
            "with row_ids=True or a key, or use overwrite and delete"
        )
    return definition.identity


def refuse_labels(identity: Identity, said: Said, what: str) -> None:
    """Raise Invalid for labels where rows are named by their ids."""
    if said.labels is not None and isinstance(identity, RowIds):
        raise Invalid(
            f"{what} names rows by their ids, which say which rows are meant whatever their labels "
            "are: leave labels out"
        )


def change_rows(
    access: Access, operation: Operation, write: Write, said: Said, *, reads: Reads
) -> RowsChanged:
    """Carry an operation out.

    Args:
        access: The table.
        operation: What the entry calls it.
        write: Writes its changes; called again for each plan.
        said: What the caller says of it.
        reads: Whether ``write`` reads rows, on which its changes depend.

    Raises:
        Invalid: The rows do not fit.
        RowConflict: Others change the same rows all the time; nothing was applied.
        Unavailable, Indeterminate: As a commit.
    """
    problem: RowConflict | None = None
    for _ in range(_PLANS):
        state = access.log.poll()
        already = already_done(state, operation, said)
        if already is not None:
            access.log.confirm()
            return already
        with access.log.own_looks():
            try:
                read = reads if isinstance(reads, bool) else reads(state)
                return _attempt(access, operation, write, said, state, reads=read)
            except RowConflict as error:
                if error.rows:
                    raise
                problem = error
    raise RowConflict(
        f"this {operation} was planned {_PLANS} times, and each time others changed its rows "
        f"first; nothing of it was applied, try again: {problem}"
    )


def _attempt(
    access: Access, operation: Operation, write: Write, said: Said, state: State, *, reads: bool
) -> RowsChanged:
    with StreamChanges(
        access,
        state.definition,
        producer=str(operation),
        labels=said.labels,
        job=said.job,
        buffer_bytes=said.buffer_bytes,
        seen=said.seeing(state.definition) if reads else None,
    ) as changes:
        did = write(state, changes)
        finished = changes.finish()
    if finished is None:
        if reads or changes.has_left:
            record_nothing(access, operation, said)
        return did
    blocks, named = finished
    left = None if reads or not named.left else Absent(state.version, named.left_hashes)
    return commit_blocks(
        access,
        operation,
        said,
        state.definition,
        blocks,
        named,
        did,
        read_version=state.version if reads else None,
        absent=left,
        seen=changes.seen,
    )


def commit_blocks(
    access: Access,
    operation: Operation,
    said: Said,
    definition: Definition,
    blocks: tuple[BlockMeta, ...],
    named: NamedRows,
    did: RowsChanged,
    *,
    read_version: int | None = None,
    absent: Absent | None = None,
    seen: Seen | None = None,
) -> RowsChanged:
    """Publish complete blocks of changes, made under ``definition``, by one entry, and return
    ``did`` with its version. Raises as a commit, and RowConflict where rows that were read at
    ``read_version`` were changed since, or anything else that was ``seen``: where nothing says what
    a serializable operation has read, everything."""
    if seen is None and read_version is not None:
        seen = said.seeing(definition)
        if seen is not None:
            seen.everything()
    commit = access.world.ids.ulid()
    for renewal in range(RENEWALS + 1):
        change = ChangeRows(
            operation=operation,
            commit=commit,
            blocks=blocks,
            named=named,
            definition=definition,
            read_version=read_version,
            absent=absent,
            seen=seen,
            job=said.job,
            ordered=said.ordered,
            parameters=said.parameters,
            message=said.message,
        )
        try:
            committed = access.log.commit(change)
        except BlockCondemned:
            if renewal == RENEWALS:
                raise
            with uploading(str(operation)):
                blocks = tuple(renewed(access, access.log.state, one) for one in blocks)
        else:
            if committed.already and access.log.state.commits.find(commit) is None:
                return RowsChanged(
                    operation=str(operation), version=committed.version, already=True
                )
            return replace(did, version=committed.version, blocks=tuple(one.ulid for one in blocks))
    raise AssertionError("the last renewal returns or raises")


def record_nothing(access: Access, operation: Operation, said: Said) -> None:
    """Say that a job has found nothing to do, so that it does nothing later either: rows that were
    as they should become may be others when it is tried again."""
    if said.job is not None:
        commit = access.world.ids.ulid()
        access.log.commit(
            Nothing(
                operation=operation,
                commit=commit,
                job=said.job,
                ordered=said.ordered,
                parameters=said.parameters,
            )
        )


def already_done(state: State, operation: Operation, said: Said) -> RowsChanged | None:
    """The result of a job that was committed before; None where it was not."""
    done: Done | None = batch_done(state, said.job, ordered=said.ordered)
    if done is None:
        return None
    return RowsChanged(operation=str(operation), version=done.version, already=True)
