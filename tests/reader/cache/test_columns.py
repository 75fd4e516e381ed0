"""Files with some columns of a chunk: right or not there, whatever dies, is damaged or evicted."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Corrupt, Unavailable
from blockstore.format.block import ChunkFile, SegmentsFile
from blockstore.format.footer import Footer
from blockstore.format.segments import FileHashes, packed
from blockstore.names import chunk_path, object_key, segments_path
from blockstore.reader.cache import ChunkCache, Hold, Some, Wanted
from blockstore.reader.cache import columns as module
from blockstore.reader.cache.columns import INDEX, ColumnFiles, column_chunks
from blockstore.scan.fetch.pieces import Range
from blockstore.scan.fetch.remote import Remote
from blockstore.world import Threads, World
from tests.support.parquet import counted_short

ULID = "01J00000000000000000000001"
ROWS = 40_000
NAMES = ("a", "b", "c", "d", "e")


class Store:
    """A bucket with one chunk of two row groups, and a cache."""

    def __init__(
        self, folder: Path, *, threads: int = 0, limit_bytes: int = 1 << 30, short: int = 0
    ) -> None:
        random = np.random.default_rng(3)
        self.rows = pa.table({name: random.random(ROWS) for name in NAMES})
        sink = pa.BufferOutputStream()
        codec = "none" if short else "snappy"
        pq.write_table(
            self.rows, sink, row_group_size=ROWS // 2, use_dictionary=False, compression=codec
        )
        data = sink.getvalue().to_pybytes()
        self.data = counted_short(data, short) if short else data
        hashes = FileHashes()
        hashes.update(self.data)
        file = ChunkFile(path=chunk_path(1), bytes=len(self.data), rows=ROWS, sha256=hashes.sha256)
        made = packed([hashes.segments(file.path)])
        assert made is not None
        self.segments: SegmentsFile = made[1]
        self.world = World.manual()
        if threads:
            self.world = replace(self.world, pool=Threads(threads))
        self.bucket = Metered(MemoryBucket(self.world.clock))
        self.key = object_key(ULID, file.path)
        self.bucket.put(self.key, self.data)
        self.bucket.put(object_key(ULID, segments_path(self.segments.sha256)), made[0])
        self.remote = Remote(
            bucket=self.bucket, block=ULID, key=self.key, file=file, segments=self.segments
        )
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.metadata = pq.read_metadata(pa.BufferReader(self.data))

    def cache(self) -> ChunkCache:
        """What another process has."""
        return ChunkCache(self.folder, self.world, limit_bytes=self.limit_bytes)

    def wanted(self, *names: str, groups: Sequence[int] | None = None) -> Wanted:
        def columns(footer: Footer) -> list[Range]:
            return column_chunks(footer.metadata, names, groups)

        file = self.remote.file
        return Wanted(
            bucket=self.bucket,
            key=self.key,
            bytes=file.bytes,
            sha256=file.sha256,
            some=Some(remote=self.remote, columns=columns),
        )

    @property
    def path(self) -> Path:
        return self.folder / "columns" / self.remote.file.sha256

    def check(self, hold: Hold, *names: str) -> None:
        """These columns are there, and every other column chunk is complete or begins with 0."""
        data = Path(hold.paths[0]).read_bytes()
        assert len(data) == len(self.data)
        for start, length in column_chunks(self.metadata):
            right = data[start : start + length] == self.data[start : start + length]
            assert right or data[start] == 0
        for start, length in column_chunks(self.metadata, names):
            assert data[start : start + length] == self.data[start : start + length]
        if names:
            found = pq.read_table(pa.BufferReader(data), columns=list(names))
            assert found.equals(self.rows.select(list(names)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.fixture
def segment_by_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column chunk comes in several pieces, as a large one does."""

    def single(segments: Iterable[int], **_: object) -> list[range]:
        return [range(number, number + 1) for number in segments]

    monkeypatch.setattr(module, "pieces", single)


def test_only_what_is_named_is_there_and_nothing_is_fetched_twice(store: Store) -> None:
    cache = store.cache()
    for names in (("b",), ("b", "d"), ("d",), (), NAMES):
        hold = cache.hold([store.wanted(*names)])
        store.check(hold, *names)
        fetched = cache.counts.bytes_fetched
        again = cache.hold([store.wanted(*names)])
        assert cache.counts.bytes_fetched == fetched
        for one in (hold, again):
            one.release()
    assert cache.counts.hits > cache.counts.misses
    assert list(cache.held.glob("*/*")) == []


def test_other_processes_find_what_is_there(store: Store) -> None:
    store.cache().hold([store.wanted("a", "c")]).release()
    before = store.bucket.bytes["get_range"]
    other = store.cache()
    store.check(other.hold([store.wanted("a", "c")]), "a", "c")
    assert other.counts.bytes_fetched == 0
    assert store.bucket.bytes["get_range"] - before < 2 * 65_536, "its tail only"


def test_processes_that_are_open_see_what_others_fill(store: Store) -> None:
    first, second = store.cache(), store.cache()
    first.hold([store.wanted("a")]).release()
    second.hold([store.wanted("a")]).release()
    first.hold([store.wanted("e")]).release()
    store.check(second.hold([store.wanted("e", "a")]), "a", "e")
    assert second.counts.bytes_fetched == 0


def test_holes_take_no_room_and_do_not_count(store: Store) -> None:
    cache = store.cache()
    cache.hold([store.wanted("c")]).release()
    assert 0 < cache.bytes_used() < len(store.data) // 2
    cache.hold([store.wanted(*NAMES)]).release()
    assert cache.bytes_used() > len(store.data) // 2


def test_eviction_takes_no_bytes_from_under_a_query(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=1)
    cache = store.cache()
    hold = cache.hold([store.wanted("a")])
    assert not store.path.exists()
    assert not store.path.with_name(store.path.name + INDEX).exists()
    store.check(hold, "a")
    other = cache.hold([store.wanted("b")])
    store.check(other, "b")
    store.check(hold, "a")
    assert cache.counts.evicted == 2


def spots(store: Store) -> list[int]:
    """Bytes of a filled column chunk: the first, the last, of the borders and between them."""
    start, length = column_chunks(store.metadata, ["b"])[0]
    return [start, start + 1, start + length // 2, start + length - 1]


@pytest.mark.parametrize("spot", range(4))
@pytest.mark.parametrize("value", ["flipped", "zero", "zeros"])
def test_a_process_does_not_believe_a_damaged_file(store: Store, spot: int, value: str) -> None:
    store.cache().hold([store.wanted("b")]).release()
    with open(store.path, "r+b") as file:
        place = spots(store)[spot]
        size = 70_000 if value == "zeros" else 1
        file.seek(place)
        old = file.read(size)
        file.seek(place)
        file.write(bytes([old[0] ^ 4]) if value == "flipped" else bytes(len(old)))
    cache = store.cache()
    # The damaged column is another one than the query needs: nothing of the file is believed.
    store.check(cache.hold([store.wanted("d")]), "d")
    store.check(cache.hold([store.wanted("b")]), "b")


@pytest.mark.parametrize("how", ["gone", "garbage", "short", "footer"])
def test_a_file_without_its_index_or_its_end_is_made_again(store: Store, how: str) -> None:
    store.cache().hold([store.wanted("b")]).release()
    index = store.path.with_name(store.path.name + INDEX)
    if how == "gone":
        index.unlink()
    elif how == "garbage":
        index.write_bytes(b"\xff 1 2\n" + index.read_bytes()[:20])
    elif how == "short":
        os.truncate(store.path, 1000)
    else:
        with open(store.path, "r+b") as file:
            file.seek(-20, os.SEEK_END)
            file.write(b"x")
    store.check(store.cache().hold([store.wanted("b")]), "b")


@pytest.mark.usefixtures("segment_by_segment")
def test_at_no_moment_does_a_part_of_a_column_look_like_all_of_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, seen = os.pwrite, 0

    def watched(*given: object) -> int:
        nonlocal seen
        written = write(*given)  # type: ignore[arg-type]
        if store.path.exists():
            seen += 1
            data = store.path.read_bytes()
            for start, length in column_chunks(store.metadata):
                assert data[start : start + length] == store.data[start : start + length] or (
                    data[start] == 0
                )
        return written

    monkeypatch.setattr(module.os, "pwrite", watched)
    store.cache().hold([store.wanted("b", "c", "e")])
    assert seen >= 12


class Died(BaseException):
    """The process was killed."""


@pytest.mark.usefixtures("segment_by_segment")
def test_a_process_may_die_at_any_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write, written = os.pwrite, 0
    last = 0

    def dying(*given: object) -> int:
        nonlocal written
        written += 1
        if written == last:
            raise Died
        return write(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module.os, "pwrite", dying)
    while last < 40:
        last, written = last + 1, 0
        try:
            store.cache().hold([store.wanted("b", "e")])
        except Died:
            written = -1_000_000
            store.check(store.cache().hold([store.wanted("a")]), "a")
            hold = store.cache().hold([store.wanted("b", "e")])
            store.check(hold, "b", "e")
            for path in (store.folder / "columns").iterdir():
                path.unlink()
        else:
            break
    assert 12 < last < 40


def test_a_process_may_die_before_it_lists_what_it_filled(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*_: object) -> str:
        raise Died

    cache, wanted = store.cache(), [store.wanted("b")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "_edges", dying)
        with pytest.raises(Died):
            cache.hold(wanted)
    store.check(store.cache().hold([store.wanted("a")]), "a")


def test_damage_in_the_bucket_is_reported_and_never_kept(store: Store) -> None:
    start, length = column_chunks(store.metadata, ["c"])[1]
    damaged = bytearray(store.data)
    damaged[start + length // 2] ^= 1
    store.bucket.put(store.key, bytes(damaged))
    cache = store.cache()
    with pytest.raises(Corrupt, match=store.key):
        cache.hold([store.wanted("c")])
    assert list(cache.held.glob("*/*")) == []
    store.bucket.put(store.key, store.data)
    store.check(store.cache().hold([store.wanted("a")]), "a")
    store.check(cache.hold([store.wanted("c")]), "c")


def test_segments_that_are_gone_or_wrong_mean_a_complete_file(store: Store) -> None:
    key = object_key(ULID, segments_path(store.segments.sha256))
    for damage in (b"other bytes", None):
        if damage is None:
            store.bucket.delete([key])
        else:
            store.bucket.put(key, damage)
        hold = store.cache().hold([store.wanted("a")])
        assert Path(hold.paths[0]).read_bytes() == store.data
        for path in (store.folder / "files").iterdir():
            path.unlink()


def test_a_file_that_is_damaged_under_a_query_is_not_sound(store: Store) -> None:
    cache = store.cache()
    hold = cache.hold([store.wanted("b")])
    assert hold.is_sound(hold.paths[0])
    with open(store.path, "r+b") as file:
        file.seek(spots(store)[2])
        file.write(b"\0\1\2\3")
    assert hold.is_sound(hold.paths[0]) is False
    hold.forget(hold.paths[0], store.remote.file.sha256)
    assert not store.path.exists()
    store.check(cache.hold([store.wanted("b")]), "b")


def test_threads_and_processes_fill_one_file_together(tmp_path: Path) -> None:
    for turn in range(5):
        store = Store(tmp_path / str(turn), threads=4)
        caches = [store.cache(), store.cache()]
        together, failed = threading.Barrier(6), []

        def ask(
            number: int,
            store: Store = store,
            caches: list[ChunkCache] = caches,
            wait: threading.Barrier = together,
            failed: list[BaseException] = failed,
        ) -> None:
            try:
                wait.wait()
                for name in (NAMES[number % 5], NAMES[(number + 1) % 5]):
                    hold = caches[number % 2].hold([store.wanted(name)])
                    store.check(hold, name)
                    hold.release()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed


def test_another_users_file_is_not_needed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.cache().hold([store.wanted("b")]).release()
    link = os.link

    def refused(source: object, *given: object) -> None:
        if source == store.path:
            raise PermissionError(1, "Operation not permitted")
        link(source, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(module.os, "link", refused)
    store.check(store.cache().hold([store.wanted("b", "c")]), "b", "c")


def test_a_file_that_another_process_is_just_completing_is_not_taken_for_damaged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, write, seen = store.cache(), store.cache(), os.pwrite, list[int]()

    def and_asked(descriptor: int, data: bytes, at: int) -> int:
        done = write(descriptor, data, at)
        if len(data) == 1 and not seen:  # the first byte of the first column chunk
            seen.append(store.path.stat().st_ino)
            hold = other.hold([store.wanted("b")])
            store.check(hold, "b")
            hold.release()
            seen.append(store.path.stat().st_ino)
        return done

    monkeypatch.setattr(os, "pwrite", and_asked)
    hold = one.hold([store.wanted("a")])
    store.check(hold, "a")
    hold.release()
    assert len(seen) == 2
    assert seen[0] == seen[1], "the file is still the same one"


def test_what_another_query_fills_while_a_file_is_checked_stays_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.cache().hold([store.wanted("d")]).release()
    cache, checked, seen = store.cache(), ColumnFiles._checked, list[bool]()

    def and_filled(self: ColumnFiles, *given: Any, **more: Any) -> Any:
        found = checked(self, *given, **more)
        if not seen:
            seen.append(True)
            cache.hold([store.wanted("a")]).release()
        return found

    monkeypatch.setattr(ColumnFiles, "_checked", and_filled)
    cache.hold([store.wanted("b")]).release()
    assert seen
    for name in ("a", "b", "d"):
        assert not cache.lacks(store.wanted(name), column_chunks(store.metadata, [name])), name


def test_queries_that_come_together_fetch_a_column_once(tmp_path: Path) -> None:
    store = Store(tmp_path, threads=16)
    cache = store.cache()
    together, failed = threading.Barrier(8), []

    def ask(number: int) -> None:
        names = ("a", "b", "c") if number % 2 else ("c", "d")
        try:
            together.wait()
            hold = cache.hold([store.wanted(*names)])
            store.check(hold, *names)
            hold.release()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert cache.counts.bytes_fetched < len(store.data)


def test_what_one_query_could_not_fetch_another_one_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, threads=4)
    cache = store.cache()
    fetch, waiting, failed = cache.fetcher.fetch, threading.Event(), threading.Event()

    def failing(*given: object, **words: object) -> bytes:
        if not failed.is_set():
            waiting.wait(10)
            failed.set()
            raise Unavailable("the store is down")
        return fetch(*given, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(cache.fetcher, "fetch", failing)
    wait = store.world.pool.wait

    def noted(event: threading.Event) -> None:
        waiting.set()
        wait(event)

    monkeypatch.setattr(store.world.pool, "wait", noted)

    def first() -> None:
        with pytest.raises(Unavailable):
            cache.hold([store.wanted("a")])

    thread = threading.Thread(target=first)
    thread.start()
    while not cache.columns._filling:
        pass
    store.check(cache.hold([store.wanted("a")]), "a")
    thread.join()
    assert not cache.columns._filling


def test_a_new_file_with_the_inode_of_an_old_one_is_not_taken_for_it(tmp_path: Path) -> None:
    """A file system gives the number of a removed file to the next one."""
    store = Store(tmp_path, limit_bytes=1)
    cache = store.cache()
    for _ in range(4):
        hold = cache.hold([store.wanted("a")])
        store.check(hold, "a")
        hold.release()
    store = Store(tmp_path / "other")
    first, second = store.cache(), store.cache()
    first.hold([store.wanted("a", "b")]).release()
    remove(store)
    second.hold([store.wanted("c")]).release()
    store.check(first.hold([store.wanted("a", "c")]), "a", "c")


def remove(store: Store) -> None:
    for path in (store.folder / "columns").iterdir():
        path.unlink()


def test_what_was_evicted_from_under_a_query_is_not_called_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=1)
    hold = store.cache().hold([store.wanted("b")])
    assert hold.is_sound(hold.paths[0])
    with open(hold.paths[0], "r+b") as file:
        file.seek(spots(store)[2])
        file.write(b"xxxx")
    assert not hold.is_sound(hold.paths[0])


def test_nothing_is_known_of_files_that_are_gone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cache = store.cache()
    cache.hold([store.wanted("b")]).release()
    assert len(cache.columns._known) == 1
    remove(store)
    cache.columns.forget_all_but([])
    assert not cache.columns._known


def test_only_the_file_of_all_is_listed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's index may not be written, and nobody would find the columns that it lists."""
    store.cache().hold([store.wanted("b")]).release()
    index = store.path.with_name(store.path.name + INDEX)
    before = index.read_bytes()
    test_another_users_file_is_not_needed(store, monkeypatch)
    assert index.read_bytes() == before


def test_a_chunk_whose_pages_reach_beyond_the_stated_end_is_a_complete_file(
    tmp_path: Path,
) -> None:
    """What DuckDB reads behind that end would be zeros, as a part of the last page."""
    store = Store(tmp_path, short=4_000)
    hold = store.cache().hold([store.wanted("a")])
    assert Path(hold.paths[0]).read_bytes() == store.data
    found = duckdb.sql(f"SELECT a FROM '{hold.paths[0]}'").to_arrow_table()
    assert found.equals(store.rows.select(["a"]))


class Interrupting(Threads):
    """In a round of several calls the caller is interrupted (Ctrl-C) while they run."""

    def map(self, call: Any, items: Iterable[Any]) -> list[Any]:
        work = list(items)
        if len(work) < 3:
            return super().map(call, work)
        for item in work:
            self.start(partial(call, item))
        raise KeyboardInterrupt


@pytest.mark.usefixtures("segment_by_segment")
def test_an_interrupted_query_writes_into_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of closed descriptors are used again by what the process opens next."""
    store = Store(tmp_path / "cache")
    pool = Interrupting(8)
    store.world = replace(store.world, pool=pool)
    cache = store.cache()
    fetch, interrupted = cache.fetcher.fetch, threading.Event()

    def late(*given: Any, **words: Any) -> bytes:
        interrupted.wait(10)
        return fetch(*given, **words)

    monkeypatch.setattr(cache.fetcher, "fetch", late)
    with pytest.raises(KeyboardInterrupt):
        cache.hold([store.wanted("b")])
    others = [tmp_path / str(number) for number in range(8)]
    with ExitStack() as stack:
        for other in others:
            stack.enter_context(open(other, "wb"))
        interrupted.set()
        here = threading.Barrier(9)
        for _ in range(8):
            pool.start(lambda: here.wait(10) and None)
        here.wait(10)
    assert [other.stat().st_size for other in others] == [0] * 8
    store.world = World.manual()
    store.check(store.cache().hold([store.wanted("b")]), "b")


def test_an_interrupted_query_leaves_no_file_for_the_next_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Interrupting(8)
    store.world = replace(store.world, pool=pool)
    cache = store.cache()
    link, interrupted = os.link, threading.Event()

    def late(*given: Any) -> None:
        interrupted.wait(10)
        link(*given)

    three = [replace(store.wanted(), some=None)] * 3
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", late)
        with pytest.raises(KeyboardInterrupt):
            cache.hold(three)
        interrupted.set()
        here = threading.Barrier(9)
        for _ in range(8):
            pool.start(lambda: here.wait(10) and None)
        here.wait(10)
    for wanted in (three[:2], [store.wanted("a")]):
        store.check(cache.hold(wanted), "a")
