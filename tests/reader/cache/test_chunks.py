"""The chunk cache: whole files only, bounded, safe under queries, processes and faults."""

from __future__ import annotations

import copy
import gc
import hashlib
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Corrupt, NoSpace, ObjectMissing, Unavailable
from blockstore.reader.cache import ChunkCache, Wanted, default_folder
from blockstore.world import Threads, World
from tests.support.faulty import FaultyBucket


class Store:
    def __init__(self, folder: Path, limit_bytes: int = 1 << 30) -> None:
        self.world = World.manual()
        self.bucket = Metered(MemoryBucket(self.world.clock))
        self.cache = ChunkCache(folder, self.world, limit_bytes=limit_bytes)
        self.folder = folder

    def chunk(self, name: str, size: int = 1000) -> Wanted:
        data = (name.encode() * size)[:size]
        self.bucket.put(name, data)
        return Wanted(
            bucket=self.bucket, key=name, bytes=size, sha256=hashlib.sha256(data).hexdigest()
        )

    @property
    def fetched(self) -> int:
        return self.bucket.counts["get_range"]

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder / "files"))

    def parts(self) -> list[str]:
        return os.listdir(self.folder / "parts")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_chunk_is_fetched_once_and_its_bytes_are_right(store: Store) -> None:
    chunk = store.chunk("a", 20 << 20)
    with_first = store.cache.hold([chunk])
    fetched = store.fetched
    again = store.cache.hold([chunk])
    assert store.fetched == fetched
    assert Path(again.paths[0]).read_bytes() == b"a" * (20 << 20)
    for hold in (with_first, again):
        hold.release()
        hold.release()
    assert list(store.cache.held.glob("*/*")) == []


def test_files_survive_a_restart(store: Store) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    store.bucket.delete(["a"])
    assert (
        Path(ChunkCache(store.folder, store.world).hold([chunk]).paths[0]).read_bytes()
        == b"a" * 1000
    )


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=2500)
    a, b, c = (store.chunk(name) for name in "abc")
    for tick, chunk in enumerate((a, b, a, c)):
        hold = store.cache.hold([chunk])
        os.utime(hold.paths[0], ns=(tick, tick))
        hold.release()
    assert store.files() == sorted([a.sha256, c.sha256])
    assert store.cache.bytes_used() == 2000


def test_eviction_takes_no_file_from_under_a_query(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=1500)
    held = store.cache.hold([store.chunk("a"), store.chunk("b")])
    store.cache.hold([store.chunk("c")]).release()
    assert [Path(path).read_bytes()[:1] for path in held.paths] == [b"a", b"b"]
    assert store.cache.bytes_used() <= 1500


def test_bytes_that_are_not_the_chunks_are_never_kept(store: Store) -> None:
    chunk = store.chunk("a")
    for wrong in (b"b" * 1000, b"a" * 999, b"a" * 1001):
        store.bucket.put("a", wrong)
        if len(wrong) > 1000:
            # A longer object: the chunk's own bytes lead it, and no more are read.
            store.cache.hold([chunk]).release()
            continue
        with pytest.raises(Corrupt, match=r"a has .* bytes and the hash"):
            store.cache.hold([chunk])
        assert store.files() == []
        assert store.parts() == []
    assert list(store.cache.held.glob("*/*")) == []


def test_a_missing_chunk_and_a_silent_store_leave_nothing_behind(store: Store) -> None:
    chunk = store.chunk("a", 20 << 20)
    silent = FaultyBucket(store.bucket, lose_answer=[2])
    with pytest.raises(Unavailable):
        store.cache.hold([Wanted(bucket=silent, key="a", bytes=chunk.bytes, sha256=chunk.sha256)])
    store.bucket.delete(["a"])
    with pytest.raises(ObjectMissing):
        store.cache.hold([chunk])
    assert store.files() == store.parts() == list(store.cache.held.glob("*/*")) == []


def test_a_full_disk_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NoSpace, match="No space left on device"):
        store.cache.hold([store.chunk("a")])
    assert store.files() == store.parts() == []


def test_a_start_sweeps_only_what_was_abandoned_long_ago(store: Store) -> None:
    store.world.clock.sleep(365 * 86_400 * 20)
    now_s = store.world.clock.now_ms() / 1000
    for folder in ("parts", "held"):
        for name, age_s in (("old", 90_000), ("young", 60)):
            path = store.folder / folder / name
            path.mkdir() if folder == "held" else path.write_bytes(b"x")
            os.utime(path, (now_s - age_s, now_s - age_s))
    ChunkCache(store.folder, store.world)
    assert store.parts() == ["young"]
    assert os.listdir(store.cache.held) == ["young"]


def test_queries_that_follow_one_another_get_the_same_names(store: Store) -> None:
    chunks = [store.chunk("a"), store.chunk("b")]
    first = store.cache.hold(chunks)
    first.release()
    again = store.cache.hold(reversed(chunks))
    assert again.paths == first.paths[::-1]


def test_queries_that_run_together_have_names_of_their_own(store: Store) -> None:
    chunk = store.chunk("a")
    first, second = store.cache.hold([chunk]), store.cache.hold([chunk])
    assert first.paths != second.paths
    first.release()
    third = store.cache.hold([chunk])
    assert third.paths == first.paths
    first.release()
    assert store.cache.hold([chunk]).paths[0] not in (*second.paths, *third.paths)
    for hold in (second, third):
        assert Path(hold.paths[0]).read_bytes() == b"a" * 1000


def test_processes_have_names_of_their_own(store: Store) -> None:
    chunk = store.chunk("a")
    other = ChunkCache(store.folder, store.world)
    assert store.cache.hold([chunk]).paths != other.hold([chunk]).paths


def test_a_chunk_that_is_asked_for_twice_has_two_names(store: Store) -> None:
    chunk = store.chunk("a")
    hold = store.cache.hold([chunk, store.chunk("b"), chunk])
    assert len(set(hold.paths)) == 3
    assert [Path(path).read_bytes()[:1] for path in hold.paths] == [b"a", b"b", b"a"]


def test_a_folder_that_somebody_removed_is_made_again(store: Store) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    for folder in store.cache.held.iterdir():
        folder.rmdir()
    assert Path(store.cache.hold([chunk]).paths[0]).read_bytes() == b"a" * 1000
    assert store.cache.counts.misses == 1


def test_a_folder_that_other_processes_may_sweep_is_not_used_again(store: Store) -> None:
    chunk = store.chunk("a")
    first = store.cache.hold([chunk])
    first.release()
    store.world.clock.sleep(3500)
    again = store.cache.hold([chunk])
    assert again.paths == first.paths
    again.release()
    store.world.clock.sleep(3700)
    assert store.cache.hold([chunk]).paths != first.paths
    assert len(os.listdir(store.cache.held)) == 1


def test_a_process_leaves_no_folder_behind(store: Store) -> None:
    cache = ChunkCache(store.folder, store.world)
    first, second = (cache.hold([store.chunk("a")]) for _ in range(2))
    first.release()
    second.release()
    assert len(os.listdir(cache.held)) == 2
    del cache, first, second
    gc.collect()
    assert os.listdir(store.cache.held) == []


def test_one_file_that_cannot_be_removed_keeps_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.cache.hold([store.chunk("a"), store.chunk("b")])
    unlink = os.unlink

    def stuck(path: Any, **words: Any) -> None:
        if str(path).endswith(Path(first.paths[0]).name):
            raise PermissionError(1, "Operation not permitted")
        unlink(path, **words)

    with monkeypatch.context() as disk:
        disk.setattr(os, "unlink", stuck)
        first.release()
    assert [Path(path).exists() for path in first.paths] == [True, False]
    assert store.cache.hold([store.chunk("b")]).paths[0] != first.paths[1], (
        "its folder is not used again"
    )


def test_the_first_queries_of_a_process_may_come_together(tmp_path: Path) -> None:
    world = replace(World.manual(), pool=Threads(4))
    for turn in range(20):
        store = Store(tmp_path / str(turn))
        chunk, together = store.chunk("a"), threading.Barrier(4)
        cache = ChunkCache(store.folder, store.world)

        def ask(
            _: int,
            cache: ChunkCache = cache,
            chunk: Wanted = chunk,
            wait: threading.Barrier = together,
        ) -> bytes:
            wait.wait()
            hold = cache.hold([chunk])
            found = Path(hold.paths[0]).read_bytes()
            hold.release()
            return found

        assert world.pool.map(ask, range(4)) == [b"a" * 1000] * 4
        assert list(cache.held.glob("*/*")) == []


def test_a_child_process_and_its_parent_take_no_folder_from_one_another(store: Store) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    # What a fork leaves: two that count alike, under one name.
    child = copy.copy(store.cache)
    child._folders = copy.copy(store.cache._folders)
    child._folders._pid, child._folders._idle = -1, list(store.cache._folders._idle)
    child._folders._taken = set()
    held, mine = child.hold([chunk]), store.cache.hold([chunk])
    assert held.paths != mine.paths
    mine.release()
    assert Path(held.paths[0]).read_bytes() == b"a" * 1000


def test_what_a_query_that_failed_had_fetched_is_bounded_too(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=1500)
    chunks = [store.chunk(name) for name in "abc"]
    store.bucket.delete(["c"])
    with pytest.raises(ObjectMissing):
        store.cache.hold(chunks)
    assert store.cache.bytes_used() <= 1500


def test_a_smaller_limit_holds_from_the_start(store: Store) -> None:
    store.cache.hold([store.chunk("a"), store.chunk("b")]).release()
    assert ChunkCache(store.folder, store.world, limit_bytes=1500).bytes_used() == 1000


def test_a_file_that_cannot_be_given_up_stops_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = (store.chunk(name) for name in "abc")
    store.cache.hold([a, b]).release()
    unlink = Path.unlink

    def guarded(path: Path, **words: Any) -> None:
        if path.name == a.sha256:
            raise PermissionError(1, "Operation not permitted")
        unlink(path, **words)

    monkeypatch.setattr(Path, "unlink", guarded)
    cache = ChunkCache(store.folder, store.world, limit_bytes=2000)
    cache.hold([c]).release()
    assert a.sha256 in store.files()
    assert cache.bytes_used() == 2000


def test_no_room_for_a_folder_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    chunk = store.chunk("a")
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(NoSpace, match=r"cannot be written \(No space left on device\)"):
        store.cache.hold([chunk])


def test_the_default_folder_is_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "blockstore" / "chunks"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "blockstore" / "chunks"


def test_what_was_there_and_what_was_fetched_is_counted(store: Store) -> None:
    small = Store(store.folder / "small", limit_bytes=1500)
    one, two = small.chunk("a"), small.chunk("b")
    small.cache.hold([one]).release()
    small.cache.hold([one]).release()
    small.cache.hold([two]).release()
    counts = small.cache.counts
    assert (counts.hits, counts.misses, counts.evicted) == (1, 2, 1)
    assert (counts.bytes_served, counts.bytes_fetched) == (3000, 2000)


def test_a_cached_file_that_lost_its_bytes_is_fetched_again(store: Store) -> None:
    chunk = store.chunk("a")
    for size in (0, 999, 1001):
        store.cache.hold([chunk]).release()
        os.truncate(store.folder / "files" / chunk.sha256, size)
        before = store.cache.counts.misses
        again = store.cache.hold([chunk])
        assert Path(again.paths[0]).read_bytes() == b"a" * 1000
        assert store.cache.counts.misses == before + 1
        again.release()
    fetched = store.fetched
    store.cache.hold([chunk]).release()
    assert store.fetched == fetched


def flip(path: Path) -> None:
    """Another bit in the middle, and nothing else about the file."""
    state, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_a_cached_file_with_other_bytes_is_fetched_again_by_the_next_process(store: Store) -> None:
    chunk, sound = store.chunk("a"), store.chunk("b")
    store.cache.hold([chunk, sound]).release()
    flip(store.folder / "files" / chunk.sha256)
    anew = ChunkCache(store.folder, store.world)
    hold = anew.hold([chunk, sound, chunk])
    assert [Path(path).read_bytes() for path in hold.paths] == [
        b"a" * 1000,
        b"b" * 1000,
        b"a" * 1000,
    ]
    assert (anew.counts.misses, anew.counts.hits) == (1, 2)


def test_a_cached_file_that_was_written_to_is_checked_again(store: Store) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    path = store.folder / "files" / chunk.sha256
    path.write_bytes(b"b" * 1000)
    os.utime(path, ns=(1, 1))
    assert Path(store.cache.hold([chunk]).paths[0]).read_bytes() == b"a" * 1000


def test_what_was_checked_is_not_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    anew, other = (ChunkCache(store.folder, store.world) for _ in range(2))
    read: list[object] = []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: read.append(given) or real(*given))
    for cache in (store.cache, anew, other, anew, other, store.cache):
        cache.hold([chunk]).release()
    assert len(read) == 2


def test_a_file_is_on_disk_before_it_has_its_name(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: done.append("fsync") or sync(fd))
    monkeypatch.setattr(os, "replace", lambda *names: done.append("replace") or replace(*names))
    store.cache.hold([store.chunk("a")]).release()
    assert done == ["fsync", "replace"]


def test_to_forget_a_damaged_file_leaves_one_that_came_since(store: Store) -> None:
    chunk = store.chunk("a")
    first = store.cache.hold([chunk])
    first.forget(first.paths[0], chunk.sha256)
    assert store.files() == []
    second = store.cache.hold([chunk])
    first.forget(first.paths[0], chunk.sha256)
    assert store.files() == [chunk.sha256]
    second.release()
    second.forget(second.paths[0], chunk.sha256)
    assert store.files() == [chunk.sha256]
