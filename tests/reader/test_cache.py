"""The chunk cache: whole files only, bounded, safe under queries, processes and faults."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Corrupt, NoSpace, ObjectMissing, Unavailable
from blockstore.world import World
from reader.cache import ChunkCache, Wanted, default_folder
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
        return Wanted(bucket=self.bucket, key=name, bytes=size, sha256=hashlib.sha256(data).hexdigest())

    @property
    def fetched(self) -> int:
        return self.bucket.counts["get_range"]

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder / "files"))

    def held(self) -> list[Path]:
        return [path for path in self.cache.held.rglob("*") if path.is_file()]

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
    assert store.held() == []


def test_files_survive_a_restart(store: Store) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    store.bucket.delete(["a"])
    assert Path(ChunkCache(store.folder, store.world).hold([chunk]).paths[0]).read_bytes() == b"a" * 1000


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
    assert store.held() == []


def test_a_missing_chunk_and_a_silent_store_leave_nothing_behind(store: Store) -> None:
    chunk = store.chunk("a", 20 << 20)
    silent = FaultyBucket(store.bucket, lose_answer=[2])
    with pytest.raises(Unavailable):
        store.cache.hold([Wanted(bucket=silent, key="a", bytes=chunk.bytes, sha256=chunk.sha256)])
    store.bucket.delete(["a"])
    with pytest.raises(ObjectMissing):
        store.cache.hold([chunk])
    assert store.files() == store.parts() == store.held() == []


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


def test_a_name_that_cannot_be_removed_is_not_used_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    chunk = store.chunk("a")
    first = store.cache.hold([chunk])
    with monkeypatch.context() as disk:
        disk.setattr(Path, "unlink", stuck)
        first.release()
    assert store.cache.hold([chunk]).paths != first.paths


def test_a_folder_that_another_process_swept_is_made_again(store: Store) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    shutil.rmtree(store.cache.held / os.listdir(store.cache.held)[0])
    assert Path(store.cache.hold([chunk]).paths[0]).read_bytes() == b"a" * 1000
    assert store.cache.counts.misses == 1


def test_the_folder_of_a_process_that_is_used_is_never_swept(store: Store) -> None:
    chunk = store.chunk("a")
    store.cache.hold([chunk]).release()
    store.world.clock.sleep(365 * 86_400 * 20)
    now_s = store.world.clock.now_ms() / 1000
    own = store.cache.held / os.listdir(store.cache.held)[0]
    os.utime(own, (now_s - 90_000, now_s - 90_000))
    before = own.stat().st_mtime
    hold = store.cache.hold([chunk])
    assert own.stat().st_mtime != before
    assert Path(hold.paths[0]).exists()


def test_no_room_for_a_folder_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    chunk = store.chunk("a")
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(NoSpace, match=r"cannot be written \(No space left on device\)"):
        store.cache.hold([chunk])


def test_the_default_folder_is_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    assert [Path(path).read_bytes() for path in hold.paths] == [b"a" * 1000, b"b" * 1000, b"a" * 1000]
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


def test_a_file_is_on_disk_before_it_has_its_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
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
