"""How far a merge is, and a way to abandon it.

``MonitoredBucket`` sees the merges of this process by their requests for chunks. Remote merges send
none through it: ``RemoteEngine`` reports their progress to it instead.

Rules:
- Only requests for chunks are abandoned. Index, metas and marks are served to the end, so the
  process never interrupts a commit of its own. What an abandoned merge has uploaded is debris:
  readers never see it, and cleaning removes it.
- ``Abandoned`` is not ``Unavailable``: nothing retries it.
- Remote merges are as far as their engine reports, and its silence says nothing about this process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from blockstore.bucket.api import Bucket, Object, ObjectWriter
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import Clock
from blockstore.compactor.merge.engine import (
    BatchEngine,
    Merged,
    MergeOptions,
    MergeTask,
    Progress,
    no_progress,
)
from blockstore.errors import BlockstoreError
from blockstore.names import is_chunk_path, split_block_key
from blockstore.world import World


class Abandoned(BlockstoreError):
    """The process stops: the running merge is abandoned."""


class MonitoredBucket(Wrapper):
    """``inner``, whose chunk requests raise Abandoned once ``abandon`` is set; counts written chunk
    bytes."""

    def __init__(self, inner: Bucket, clock: Clock, abandon: threading.Event) -> None:
        super().__init__(inner)
        self._clock = clock
        self._abandon = abandon
        self._lock = threading.Lock()
        self._written = 0
        self._moved_s = clock.monotonic_s()
        self._reported: float | None = None

    def restart(self) -> None:
        """A merge begins: count from zero."""
        self._begin(None)

    def restart_remote(self) -> None:
        """Remote merges begin, whose bytes do not pass here."""
        self._begin(0.0)

    def report(self, share: float) -> None:
        """The share of the remote merges, from 0 to 1, that has ended by now."""
        with self._lock:
            self._reported = max(share, self._reported or 0.0)
            self._moved_s = self._clock.monotonic_s()

    def moved(self) -> None:
        """A remote merge ended."""
        self._moved_s = self._clock.monotonic_s()

    @property
    def remote(self) -> bool:
        """Whether the running merges are remote."""
        return self._reported is not None

    def share(self, size: int) -> float:
        """The progress of a merge that is expected to write ``size`` bytes: 0 to 0.99, since it has
        not ended yet."""
        reported = self._reported
        return min(
            0.99, reported if reported is not None else self._written / size if size else 0.0
        )

    def idle_s(self) -> float:
        """For how long no chunk was read or written, and no progress reported."""
        return self._clock.monotonic_s() - self._moved_s

    def _begin(self, reported: float | None) -> None:
        with self._lock:
            self._written = 0
            self._reported = reported
            self._moved_s = self._clock.monotonic_s()

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self._look(key)
        return self.inner.get(key, if_none_match=if_none_match)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._look(key)
        return self.inner.get_range(key, start, length)

    def path_of(self, key: str) -> str | None:
        self._look(key)
        return self.inner.path_of(key)

    def put(self, key: str, data: bytes) -> str:
        self._look(key)
        etag = self.inner.put(key, data)
        self.move(key, len(data))
        return etag

    def writer(self, key: str) -> ObjectWriter:
        self._look(key)
        return _MonitoredWriter(self, key, self.inner.writer(key))

    def move(self, key: str, size: int) -> None:
        """Count bytes written to a chunk. Raises Abandoned."""
        if not _is_chunk(key):
            return
        self._look(key)
        with self._lock:
            self._written += size

    def _look(self, key: str) -> None:
        if not _is_chunk(key):
            return
        if self._abandon.is_set():
            raise Abandoned(f"the process is stopping: the merge that used {key} is abandoned")
        self._moved_s = self._clock.monotonic_s()


class _MonitoredWriter:
    def __init__(self, bucket: MonitoredBucket, key: str, inner: ObjectWriter) -> None:
        self._bucket = bucket
        self._key = key
        self._inner = inner

    def write(self, data: bytes | memoryview, /) -> int:
        size = self._inner.write(data)
        self._bucket.move(self._key, size)
        return size

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()


def _is_chunk(key: str) -> bool:
    parts = split_block_key(key)
    return parts is not None and is_chunk_path(parts[1])


class RemoteEngine:
    """``engine``, whose progress and results are reported to ``monitor``."""

    def __init__(self, engine: BatchEngine, monitor: MonitoredBucket) -> None:
        self._engine = engine
        self._monitor = monitor

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        return self._engine.merge(bucket, world, task, options)

    def merge_all(
        self,
        bucket: Bucket,
        world: World,
        tasks: Sequence[MergeTask],
        options: MergeOptions,
        progress: Progress = no_progress,
    ) -> Iterator[tuple[int, Merged | BlockstoreError]]:
        def report(share: float) -> None:
            self._monitor.report(share)
            progress(share)

        for result in self._engine.merge_all(bucket, world, tasks, options, report):
            self._monitor.moved()
            yield result
