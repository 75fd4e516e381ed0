"""An overwrite in three places: begun on one process, its rows written by many, ended by the
process that commits.

Rules:
- ``begin`` looks at the table; the value that it returns travels (a pickle of some kilobytes) and
  holds all that the writers and the end need. Nothing of it is in the bucket.
- ``rows_of`` is what each writer does to its rows: judged by the condition, each with its
  ``_source``.
- ``end`` takes a fresh look and judges every entry since the beginning: what others replaced or
  brought back in between is a Conflict; what they appended follows the overwrite, or conflicts too
  (``serializable``). What a merge, a rewrite or a revert did to the blocks that are replaced is
  planned on.
- The table that is ended must be the one that was begun: one dropped and created again under the
  same URL holds rows that this overwrite never saw, whatever its version. The commit id of the
  version that was read shows it.
- A caller that has read a version and computed the rows from it names it (``read_version``): it is
  then begun at that version, and rows that went since are a Conflict as well.
- A history that no longer reaches back to the beginning cannot be judged: Conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from blockstore.errors import Conflict, NotFound, VersionExpired
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.labels import check_labels, check_new_labels
from blockstore.format.new_block import WrittenChunks
from blockstore.ids import ulid_time_ms
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.conditions import check_said, quoted, scope_of
from blockstore.operations.new_rows import FreshRows, Judge, with_source
from blockstore.operations.overwrite import done_before
from blockstore.operations.replacement import Replacing
from blockstore.operations.results import Changed
from blockstore.operations.since import Since
from blockstore.operations.view import View, look_first, read_at
from blockstore.predicate import parse
from blockstore.scan.columns import Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """An overwrite on its way."""

    source: str
    """The ULID under which the rows are written, and from which they come."""
    definition: Definition
    labels: Mapping[str, str] | None = None
    """Those of the new block; None: the table's own."""
    where: str | None = None
    isolation: str | None = None
    job: Job | None = None
    ordered: bool = True
    message: str = ""
    producer: str = "python"
    version: int = 0
    """The version that was read; 0: it is not begun on a table yet."""
    commit: str = ""
    """The commit id of its entry: what distinguishes this table from another of the same name."""
    known_labels: tuple[str, ...] = ()
    """The labels that the condition may name."""
    waiting: frozenset[str] = frozenset()
    """The writes that no entry named yet."""
    seen: frozenset[str] = frozenset()
    """The blocks that held them."""
    read: bool = False
    """Whether the caller has read that version, and did not only begin then."""

    @property
    def own_labels(self) -> dict[str, str]:
        """The labels of the new block."""
        return dict(self.definition.labels if self.labels is None else self.labels)


def begin(
    access: Access,
    *,
    where: str | None = None,
    job: Job | None = None,
    ordered: bool = True,
    labels: Mapping[str, str] | None = None,
    isolation: str | None = None,
    message: str = "",
    producer: str = "python",
) -> Begun:
    """Begin to replace the rows for which ``where`` is true, or all. Raises Invalid for a condition
    that new rows cannot be judged by. Whether the job was committed before is checked by the
    caller; ``ordered=False`` lets its batches come in any order."""
    definition = access.log.state.definition
    if labels is not None:
        check_new_labels(labels, definition.schema.names)
    begun = Begun(
        source=access.world.ids.ulid(),
        definition=definition,
        labels=labels,
        where=where,
        isolation=isolation,
        job=job,
        ordered=ordered,
        message=message,
        producer=producer,
    )
    return begun_on(access, begun)


def begin_anew(begun: Begun) -> Begun:
    """Begin on a table that is yet to be created: its rows can be written.

    ``begun_on`` must follow before the end.
    """
    check_said(begun.job, begun.message)
    _judge(begun)
    return begun


def begun_on(access: Access, begun: Begun, read_version: int | None = None) -> Begun:
    """The overwrite, begun on the table as it is now, or at the version that was read. Raises
    Invalid as ``begin``, and what ``read_at`` raises."""
    check_said(begun.job, begun.message)
    check_labels(begun.labels or {})
    view = look_first(access)
    definition = view.state.definition
    begun = replace(begun, definition=definition)
    scope = scope_of(view, "overwrite", begun.where, begun.isolation, begun.own_labels)
    if read_version is not None:
        view = View(state=read_at(access, read_version, "overwrite"))
    begun = replace(
        begun,
        version=view.state.version,
        commit=commit_of(view.state),
        known_labels=scope.labels,
        isolation=str(scope.isolation),
        waiting=view.waiting,
        seen=frozenset(block.meta.ulid for block in view.unpublished),
        read=read_version is not None,
    )
    _judge(begun)
    return begun


def rows_of(begun: Begun, data: Any) -> Iterator[pa.RecordBatch]:
    """Rows as its block holds them, piece by piece. Raises Invalid for one that does not fit or
    does not meet the condition; rows are counted within ``data``."""
    for piece in _judge(begun).take(data):
        yield with_source(piece, begun.definition, begun.source)


def end(access: Access, begun: Begun, written: WrittenChunks | None) -> Changed:
    """Put what was written in the place of what was begun for, in one version; None where there
    were no rows.

    ``access`` is a fresh handle: what it knew before is not used. Raises Conflict where others
    changed what this is about, or the table is another; then nothing of it is visible.
    """
    assert begun.version, "an overwrite is begun on its table before it ends"
    access.log.poll()
    done = done_before(access.log, begun.job)
    if done is not None:
        return done
    since = Since(
        state=_read_at(access, begun), waiting=begun.waiting, seen=begun.seen, read=begun.read
    )
    view = look_first(access)
    scope = scope_of(view, "overwrite", begun.where, begun.isolation, begun.known_labels)
    fresh = FreshRows(
        access,
        begun.definition,
        labels=begun.own_labels,
        job=begun.job,
        producer=begun.producer,
        source=begun.source,
        written=_nothing(begun.source) if written is None else written,
    )
    replacing = Replacing(
        access=access,
        operation=Operation.OVERWRITE,
        scope=scope,
        view=view,
        fresh=fresh,
        job=begun.job,
        ordered=begun.ordered,
        parameters={} if begun.where is None else {"where": quoted(begun.where)},
        message=begun.message,
        since=since,
    )
    return replacing.run()


def _judge(begun: Begun) -> Judge:
    labels = begun.own_labels
    offered = Columns.of(begun.definition, {*begun.known_labels, *labels})
    return Judge(
        begun.definition, labels, parse(begun.where, offered.all), quoted(begun.where) or "true"
    )


def commit_of(state: State) -> str:
    """The commit id of the state's own version: with it, what distinguishes a table from another of
    the same name."""
    ids = state.commits.window().ids
    return next(commit for commit, entry in ids.items() if entry == state.version)


def _read_at(access: Access, begun: Begun) -> State:
    """The state that was read at the beginning, out of this table and no other."""
    now = access.log.poll()
    try:
        if now.commits.find(begun.commit) != begun.version:
            if now.version < begun.version or now.commits.covers(begun.version):
                raise _another(access, begun)
            (entry,) = access.log.entries(begun.version, begun.version)
            if entry.commit != begun.commit:
                raise _another(access, begun)
        return access.log.at(begun.version)
    except (VersionExpired, NotFound) as error:
        raise Conflict(
            f"this overwrite took longer than the table keeps its history ({error}): run it again"
        ) from error


def _another(access: Access, begun: Begun) -> Conflict:
    return Conflict(
        f"the table at {access.bucket.url} is not the one whose version {begun.version} this "
        "overwrite read: it was dropped and created again in between, and holds rows that this "
        "overwrite never saw; look at it, then run the overwrite again"
    )


def _nothing(source: str) -> WrittenChunks:
    created = ulid_time_ms(source)
    return WrittenChunks(files=(), rows=0, bytes=0, min_time=created, max_time=created + 1)
