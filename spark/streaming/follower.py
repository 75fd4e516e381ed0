"""Follow a table: from a position to the blocks of the next micro-batch, and its end.

- Rows come in the order of versions. A batch ends at a limit, at the newest version, or before a
  version that removes or changes rows, so that everything before it is delivered. A batch that
  would start at such a version raises Conflict.
- A limit never makes a batch empty: it contains at least one block if there is one.
- A block stays readable while a version above the boundary names it, and the version that added it
  does. So what is planned can be read, even if a merge has replaced it since. If the versions were
  collected before the stream read them, VersionExpired is raised and says how to continue.
- If a position's version has another commit than before, the table was replaced: Conflict. This is
  checked for every batch with rows, and once a minute by a stream that waits. So is one that was
  created on the same index after the table was dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

from blockstore.clock import Clock
from blockstore.errors import Conflict, HistoryReplaced, NotFound, VersionExpired
from blockstore.index.entry import Operation
from blockstore.index.fold import void_commit
from blockstore.index.idle import IdleLook
from blockstore.index.lives import check_there
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock
from blockstore.spark.streaming.entries import News, news_of, void_news
from blockstore.spark.streaming.options import Start, StreamStart
from blockstore.spark.streaming.position import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The limits of one batch; None means no limit."""

    blocks: int | None = None
    bytes: int | None = None


NO_LIMIT = Limit()


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
        """With a ``clock``, a waiting stream checks once a minute for a replaced table."""
        self._log = log
        self._ignores = ignores_removal
        self._clock = clock
        self._idle = None if clock is None else IdleLook(log, clock)
        self._known: Position | None = None
        """The last position that was found in this table's history. It is valid until there is a
        new version: that one may belong to a table that replaced this one."""

    def newest(self) -> int:
        """The newest version. Raises Conflict if the table's history was replaced since the last
        call, TableDropped if the table was dropped."""
        try:
            state = self._log.poll()
            check_there(state, self._log.bucket.url)
            return state.version
        except HistoryReplaced as error:
            raise Conflict(
                f"the table at {self._log.bucket.url} was created again or restored from a copy "
                "after the stream read it: start the stream with a new checkpoint location "
                f"({error})"
            ) from error

    def begin(self, start: StreamStart, latest: int) -> Position:
        """The position where a new stream begins; ``latest`` is the newest version.

        Raises NotFound for a version that does not exist, VersionExpired for a collected one.
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
                # Also a version in which the table was dropped: what came before it was not added
                # at that time, or later.
                return self._at(self._log.as_of(start.at - 1, dropped=True).version)
            except VersionExpired:
                raise
            except NotFound:
                return Position(version=0)
        if start.at > latest + 1:
            raise NotFound(
                f"{url} does not have version {start.at}: expected a version from 1 to {latest}, "
                "its latest, or the next one (option('start', 'latest') begins with the next)"
            )
        if start.at <= latest:
            self._entry(start.at)
        return self._at(start.at - 1)

    def _earliest(self, latest: int) -> Position:
        """The snapshot of a version that contains every row of the oldest version left.

        The oldest version may be collected at any time, which would stop its batches. So a later
        version is taken, one that remains for half the retention, as long as no rows were removed
        in between.
        """
        state = self._log.state
        now_ms = state.time_ms if self._clock is None else self._clock.now_ms()
        recent_ms = now_ms - 500 * state.definition.properties.history_retention_s
        every = self._log.entries(None, latest)
        # Those of a table that was dropped before are not of this one.
        entries = dropwhile(lambda entry: entry.id < state.created, every)
        last = next(entries, None)
        if last is None:
            return replace(self._at(latest), snapshot=True)
        for entry in entries:
            if (
                entry.time > recent_ms
                or entry.operation == Operation.EXPIRE
                or news_of(entry).changes
            ):
                break
            last = entry
        return Position(version=last.id, commit=last.commit, snapshot=True)

    def window(self, start: Position, until: int, limit: Limit = NO_LIMIT) -> Window:
        """The blocks after ``start``, up to the end of version ``until`` or the limit."""
        self._check_same_table(start, idle=until <= start.version and not start.snapshot)
        batch = _Batch(limit)
        at = start
        if start.snapshot:
            at = batch.take(self._snapshot(start.version), start)
            if at.snapshot:
                return Window(start=start, end=at, blocks=tuple(batch.blocks))
        for news in self._news(at, until):
            if news.changes and not self._ignores:
                if at == start:
                    raise self._changed(news)
                break
            before = at
            at = batch.take(news.blocks, before, news)
            if at.version < news.version:
                break
        return Window(start=start, end=at, blocks=tuple(batch.blocks))

    def between(self, start: Position, end: Position) -> Window:
        """The blocks between two positions, the same each time: for a batch that Spark runs
        again."""
        self._check_same_table(start)
        self._check_same_table(end)  # a start before the first version has no commit to compare
        blocks: list[LiveBlock] = []
        at = start
        if start.snapshot:
            stored = self._snapshot(start.version)
            upto = end.blocks if end.snapshot else len(stored)
            blocks += stored[start.blocks : upto]
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
        """The versions after a position, up to ``until``.

        Raises VersionExpired with a message that says how to continue.
        """
        if at.version >= until:
            return
        try:
            version = at.version + 1
            for entry in self._log.entries(version, until):
                yield from map(void_news, range(version, entry.id))
                yield news_of(entry)
                version = entry.id + 1
            yield from map(void_news, range(version, until + 1))
        except VersionExpired as error:
            raise VersionExpired(
                f"the stream has read {self._log.bucket.url} up to version {at.version}, and "
                f"{error}. To continue, start it with a new checkpoint location and "
                "option('start', …): 'snapshot' delivers every row again; 'earliest' or a version "
                "delivers what is left. Increase the table's history_retention if streams may "
                "pause for longer"
            ) from error

    def _snapshot(self, version: int) -> Sequence[LiveBlock]:
        try:
            # 'earliest' may begin at a version in which the table was dropped: it has all blocks.
            return list(self._log.at(version, dropped=True).blocks)
        except VersionExpired as error:
            raise VersionExpired(
                f"the stream was reading the snapshot of version {version}, and {error}. Start it "
                "with a new checkpoint location, and with a higher max_blocks or max_bytes"
            ) from error

    def _at(self, version: int) -> Position:
        """The end of a version, with its commit if its entry still exists."""
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
        """Raise Conflict if the position belongs to another table.

        ``idle``: there is no new version.
        """
        created = self._log.state.created
        if position.version < created - 1:
            raise self._another(position, f"was created in version {created}, after a drop")
        if not position.commit:
            return
        if idle and position == self._known:
            self._check_at_interval(position)
            return
        newest = self._log.state.version
        if position.version > newest:
            raise self._another(position, f"is at version {newest}")
        try:
            found = self._entry(position.version)
        except VersionExpired:
            # Entries after it may still exist; if not, reading them raises.
            commits = self._log.state.commits
            if commits.at(position.version) not in (None, position.commit):
                raise self._another(
                    position, "had another commit at that version, collected since"
                ) from None
            return
        if found != position.commit:
            raise self._another(position, f"has commit {found} at that version")
        self._known = position

    def _check_at_interval(self, position: Position) -> None:
        if self._idle is None:
            return
        try:
            self._idle.look()
        except HistoryReplaced:
            raise self._another(position, "is another one") from None

    def _another(self, position: Position, found: str) -> Conflict:
        return Conflict(
            f"the stream has read a table at {self._log.bucket.url} up to version "
            f"{position.version} (commit {position.commit}), but the table there {found}: it was "
            "created again or restored from a copy. Start the stream with a new checkpoint location"
        )

    def _changed(self, news: News) -> Conflict:
        return Conflict(
            f"version {news.version} of {self._log.bucket.url} ({news.operation}) removes or "
            "changes rows that the stream may have delivered; everything before it was delivered. "
            "To skip it, restart the stream with option('on_removal', 'ignore'); to read the rows "
            "as they are now, start a stream with a new checkpoint location"
        )


class _Batch:
    """The blocks of a batch so far, within its limits."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._bytes = 0
        self.blocks: list[LiveBlock] = []

    def take(self, blocks: Sequence[LiveBlock], at: Position, news: News | None = None) -> Position:
        """Add blocks from ``at.blocks`` on, and return the position after the last one that fits.

        Without ``news`` they are the blocks of a snapshot.
        """
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
