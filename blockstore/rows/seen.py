"""What an operation has read, where its isolation is ``serializable``: its commit is refused if
others have changed what any of its reads returns.

Rules:
- A condition was read: no row that is newer than the version that was read may meet it. Whether a
  block could hold one is decided by labels and statistics alone, so a conflict may be seen where
  there is none, and never the reverse.
- A row was read, by its identity, whether it is written or not, and whether it existed or not: no
  entry since may have touched it (``index/touches.py``). Rows that are written are compared anyway.
- Rows that met a condition at that version are rows that were read: an update of all of them needs
  the condition alone, since it writes them.
- Keys were read in all streams that the table had: rows of a new stream may have any of them.
- Everything was read: nothing may have changed. More than a million rows read count as everything.
- What others did to versions that no query sees (merges, former versions) changes no read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from blockstore.errors import RowConflict
from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.identity import VERSION, Identity
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.predicate import Predicate, parse_filters
from blockstore.rows.named import Named
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot

_MOST = 1_000_000
"""So many rows are held; an operation that has read more has read everything."""


class Seen:
    """What one operation has read of a version so far."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._conditions: list[Predicate] = []
        self._named: list[Named] = []
        self._count = 0
        self._streams: frozenset[StreamKey] | None = None
        self._everything = False

    def where(self, condition: Predicate) -> None:
        """All rows that meet a condition were read; those that did are written, or are given to
        ``rows``."""
        if condition.everything:
            self.everything()
        else:
            self._conditions.append(condition)

    def rows(self, stream: StreamKey, columns: Sequence[pa.Array]) -> None:
        """Rows were read, by the columns that identify them."""
        if self._everything or not columns or not len(columns[0]):
            return
        self._count += len(columns[0])
        if self._count > _MOST:
            self.everything()
            return
        named = Named(self._identity, stream)
        named.add(list(columns))
        self._named.append(named)

    def keys(self, streams: Iterable[StreamKey], columns: Sequence[pa.Array]) -> None:
        """All rows with these keys were read, whatever their stream, of which the table had
        ``streams``."""
        known = frozenset(streams)
        for stream in known:
            self.rows(stream, columns)
        self._streams = known if self._streams is None else self._streams & known

    def everything(self) -> None:
        """All rows were read."""
        self._everything = True
        self._named.clear()

    def check(self, state: State, read: int, what: str) -> None:
        """Raise RowConflict unless all that was read at version ``read`` reads the same at
        ``state``, of the same definition."""
        fresh = state.blocks.take(np.flatnonzero(_versions(state) > read).tolist())
        bringing = [block for block in fresh if block.meta.kind is not BlockKind.HISTORY]
        if self._touched(state, read) or self._new_streams(bringing):
            raise _conflict(what, "rows that it has read may have been changed", read, state)
        snapshot = Snapshot(
            definition=state.definition,
            blocks=state.blocks.of(bringing),
            labels=Snapshot.of(state).label_names,
        )
        later = parse_filters([(VERSION, ">", read)], snapshot.columns.all)
        conditions = [Predicate()] if self._everything else self._conditions
        for condition in conditions:
            plan = plan_scan(snapshot, columns=[VERSION], where=condition.also(later))
            if plan.chunks:
                may = f"block {plan.chunks[0].block} may hold rows that it would have read"
                raise _conflict(what, may, read, state)

    def _touched(self, state: State, read: int) -> bool:
        if not (self._everything or self._named):
            return False
        if state.touches is None:
            return True
        hashes = None if self._everything else np.concatenate([one.hashes for one in self._named])
        found = state.touches.among(hashes, read)
        return found is None or len(found) > 0

    def _new_streams(self, bringing: Sequence[LiveBlock]) -> bool:
        known = self._streams
        return known is not None and any(block.meta.stream not in known for block in bringing)


def _versions(state: State) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The version by which each live block came; all of its rows are of it, or older."""
    return np.asarray(state.blocks.table()["version"].to_numpy())


def _conflict(what: str, found: str, read: int, state: State) -> RowConflict:
    return RowConflict(
        f"this {what} read the table at version {read}, and {found}, by version {state.version}, "
        "which its isolation 'serializable' does not allow: read the table again"
    )
