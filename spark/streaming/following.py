"""Following a table: from a position, the blocks of the next micro-batch and where it ends.

- Rows come in the order of versions. A batch ends at a limit, at the newest version, or before a
  version that removes or changes rows, so that what came before it is delivered; asked to go on
  from there, it raises Conflict.
- A limit is never so low that a batch is empty: it has at least one block if there is one.
- A block stays readable while a version above the boundary names it, and the one that added it
  does. So what can be planned can be read, also where a merge has replaced it since; and where the
  versions were collected before the stream came to them the answer is VersionExpired, which says
  how to go on.
- A position whose version has another commit than it had belongs to a table that is no more:
  Conflict. That is looked at for every batch that brings something, and by a stream that waits once
  a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from blockstore.clock import Clock
from blockstore.errors import Conflict, HistoryReplaced, NotFound, VersionExpired
from blockstore.index.entry import Operation
from blockstore.index.fold import void_commit
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock
from blockstore.spark.streaming.entries import News, news_of, nothing_at
from blockstore.spark.streaming.options import Start, StreamStart
from blockstore.spark.streaming.position import Position

__all__ = ["NO_LIMIT", "Follower", "Limit", "Window"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What one batch may hold; None = any number."""

    blocks: int | None = None
    bytes: int | None = None


NO_LIMIT = Limit()

_LOOK_S = 60.0
"""How often a stream that waits looks whether its table was made anew: one small request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The blocks between two positions."""

    start: Position
    end: Position
    blocks: tuple[LiveBlock, ...] = ()


class Follower:
    """Reads the history of one table for one stream."""

    def __init__(
        self, log: Log, *, ignores_removal: bool = False, clock: Clock | None = None
    ) -> None:
        """With a ``clock`` a stream that waits looks once a minute whether its table is still the
        same."""
        self._log = log
        self._ignores = ignores_removal
        self._clock = clock
        self._looked_s = 0.0
        self._known: Position | None = None
        """The position that was found to be of this table's history last. Good for as long as
        nothing is new: what comes next may be of a table that was made anew meanwhile."""

    def newest(self) -> int:
        """The newest version.

        Raises Conflict where the table's history was replaced since it was asked for last.
        """
        try:
            return self._log.poll().version
        except HistoryReplaced as error:
            raise Conflict(
                f"the stream has read another table at {self._log.bucket.url}, which was made "
                "anew or brought back from a copy: start "
                f"the stream with a new checkpoint location ({error})"
            ) from error

    def begin(self, start: StreamStart, latest: int) -> Position:
        """Where a new stream begins, ``latest`` being the newest version.

        Raises NotFound, and VersionExpired for what was collected.
        """
        url = self._log.bucket.url
        if start.kind is Start.LATEST:
            return self._at(latest)
        if start.kind is Start.SNAPSHOT:
            return replace(self._at(latest), snapshot=True)
        if start.kind is Start.EARLIEST:
            return self._earliest(latest)
        if start.kind is Start.TIME:
            try:
                return self._at(self._log.as_of(start.at - 1).version)
            except VersionExpired:
                raise
            except NotFound:
                return Position(version=0)
        if start.at > latest + 1:
            raise NotFound(
                f"{url} has no version {start.at}, expected one from 1 to {latest}, its latest, "
                "or the next: "
                "option('start', 'latest') begins with the next"
            )
        if start.at <= latest:
            self._entry(start.at)
        return self._at(start.at - 1)

    def _earliest(self, latest: int) -> Position:
        """The snapshot of the first version that shows every row of the oldest one left, and that
        stays for half the retention yet where no rows were removed since: the oldest may be
        collected any minute, and its batches could not go on."""
        state = self._log.state
        now_ms = state.time_ms if self._clock is None else self._clock.now_ms()
        stays_ms = now_ms - 500 * state.definition.properties.history_retention_s
        entries = self._log.entries(None, latest)
        last = next(entries, None)
        if last is None:
            return replace(self._at(latest), snapshot=True)
        for entry in entries:
            if (
                entry.time > stays_ms
                or entry.operation == Operation.EXPIRE
                or news_of(entry).changes
            ):
                break
            last = entry
        return Position(version=last.id, commit=last.commit, snapshot=True)

    def window(self, start: Position, until: int, limit: Limit = NO_LIMIT) -> Window:
        """What follows on ``start``, up to the end of version ``until`` or the limit."""
        self._check_same_table(start, idle=until <= start.version and not start.snapshot)
        taken = _Taken(limit)
        at = start
        if start.snapshot:
            at = taken.some(self._snapshot(start.version), start)
            if at.snapshot:
                return Window(start=start, end=at, blocks=tuple(taken.blocks))
        for news in self._news(at, until):
            if news.changes and not self._ignores:
                if at == start:
                    raise self._changed(news)
                break
            before = at
            at = taken.some(news.blocks, before, news)
            if at.version < news.version:
                break
        return Window(start=start, end=at, blocks=tuple(taken.blocks))

    def between(self, start: Position, end: Position) -> Window:
        """What lies between two positions, as it was told before; of a batch that Spark runs
        again."""
        self._check_same_table(start)
        self._check_same_table(end)  # a start before the first version has no commit to tell by
        blocks: list[LiveBlock] = []
        at = start
        if start.snapshot:
            held = self._snapshot(start.version)
            upto = end.blocks if end.snapshot else len(held)
            blocks += held[start.blocks : upto]
            at = Position(version=start.version, commit=start.commit)
        if not end.snapshot:
            until = end.version + 1 if end.blocks else end.version
            for news in self._news(at, until):
                if news.changes and not self._ignores:
                    raise self._changed(news)
                first = at.blocks if news.version == at.version + 1 else 0
                last = end.blocks if news.version == end.version + 1 else len(news.blocks)
                blocks += news.blocks[first:last]
        return Window(start=start, end=end, blocks=tuple(blocks))

    def _news(self, at: Position, until: int) -> Iterator[News]:
        """The versions after a position, up to ``until``. Raises VersionExpired with the way on."""
        if at.version >= until:
            return
        try:
            version = at.version + 1
            for entry in self._log.entries(version, until):
                yield from map(nothing_at, range(version, entry.id))
                yield news_of(entry)
                version = entry.id + 1
            yield from map(nothing_at, range(version, until + 1))
        except VersionExpired as error:
            raise VersionExpired(
                f"the stream has read {self._log.bucket.url} up to version {at.version}, and "
                f"{error}. To go on, start it with "
                "a new checkpoint location and option('start', …): 'snapshot' delivers every row "
                "again, 'earliest' or a "
                "version what is left; alter the table's history_retention if streams may rest "
                "for longer"
            ) from error

    def _snapshot(self, version: int) -> Sequence[LiveBlock]:
        try:
            return list(self._log.at(version).blocks)
        except VersionExpired as error:
            raise VersionExpired(
                f"the stream was reading the snapshot of version {version}, and {error}. Start it "
                "with a new checkpoint "
                "location, and a higher max_blocks or max_bytes"
            ) from error

    def _at(self, version: int) -> Position:
        """The end of a version, with its commit where that can still be told."""
        if version == 0:
            return Position(version=0)
        try:
            return Position(version=version, commit=self._entry(version))
        except VersionExpired:
            return Position(version=version)

    def _entry(self, version: int) -> str:
        """The commit id of a version. Raises VersionExpired."""
        entry = next(self._log.entries(version, version), None)
        return void_commit(version) if entry is None else entry.commit

    def _check_same_table(self, position: Position, *, idle: bool = False) -> None:
        """Raise Conflict if the position is of another table.

        ``idle``: there is nothing after it.
        """
        if not position.commit:
            return
        if idle and position == self._known:
            self._check_now_and_then(position)
            return
        newest = self._log.state.version
        if position.version > newest:
            raise self._another(position, f"is at version {newest}")
        try:
            found = self._entry(position.version)
        except VersionExpired:
            # Entries after it may still be there; if not, they say so.
            commits = self._log.state.commits
            if commits.at(position.version) not in (None, position.commit):
                raise self._another(position, "has another commit there, collected since") from None
            return
        if found != position.commit:
            raise self._another(position, f"has the commit {found} there")
        self._known = position

    def _check_now_and_then(self, position: Position) -> None:
        if self._clock is None or self._clock.monotonic_s() - self._looked_s < _LOOK_S:
            return
        self._looked_s = self._clock.monotonic_s()
        anew = self._log.follow()
        if anew is not self._log and anew.state.commits.at(position.version) != position.commit:
            raise self._another(position, f"is another one, at version {anew.state.version}")

    def _another(self, position: Position, found: str) -> Conflict:
        return Conflict(
            f"the stream has read a table at {self._log.bucket.url} up to version "
            f"{position.version} (commit "
            f"{position.commit}), but the table there {found}: it was made anew or brought back "
            "from a copy; start the stream "
            "with a new checkpoint location"
        )

    def _changed(self, news: News) -> Conflict:
        return Conflict(
            f"version {news.version} of {self._log.bucket.url} ({news.operation}) removes or "
            "changes rows that the stream may "
            "have delivered; everything before it was delivered. To pass over it, restart the "
            "stream with "
            "option('on_removal', 'ignore'); to have the rows as they are now, start one with a "
            "new checkpoint location"
        )


class _Taken:
    """The blocks of a batch so far, and whether one more may come in."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._bytes = 0
        self.blocks: list[LiveBlock] = []

    def some(self, blocks: Sequence[LiveBlock], at: Position, news: News | None = None) -> Position:
        """Take blocks from ``at.blocks`` on; answers where it stopped: behind the last, or before
        the first that is too much. Without ``news`` they are those of a snapshot."""
        for place in range(at.blocks, len(blocks)):
            if not self._fits(blocks[place]):
                return replace(at, blocks=place)
            self.blocks.append(blocks[place])
            self._bytes += blocks[place].meta.bytes
        if news is None:
            return Position(version=at.version, commit=at.commit)
        return Position(version=news.version, commit=news.commit)

    def _fits(self, block: LiveBlock) -> bool:
        if not self.blocks:
            return True
        most, most_bytes = self._limit.blocks, self._limit.bytes
        return (most is None or len(self.blocks) < most) and (
            most_bytes is None or self._bytes + block.meta.bytes <= most_bytes
        )
