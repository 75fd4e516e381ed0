"""What is kept of hidden rows: a second query reads no identity, a new block of changes is looked
at where it can hide something, and what is kept is never taken for something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.format.block import BlockKind, ChunkFile, ColumnStats, StreamKey
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, VERSION, Key, RowIds
from blockstore.index import log as index_log
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.fetch.fetcher import Fetcher
from blockstore.scan.fetch.store import MemoryStore
from blockstore.scan.hidden_cache import HiddenCache
from blockstore.scan.hiders import Hiders
from blockstore.scan.hiding import hidden_rows
from blockstore.scan.reads import Reads
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.rows.lake import BY_ID, BY_KEY, rows_of, seen

BY_ID_KEY = Key(("id",))
IDS = st.sets(st.integers(0, 5))


def keyed() -> tuple[Table, Metered]:
    """A table whose bytes are fetched at every read, so that requests count what is read."""
    return _made(Definition.create(BY_KEY, key="id"))


def _made(definition: Definition) -> tuple[Table, Metered]:
    world = World.manual()
    bucket = Metered(MemoryBucket(world.clock))
    table = Table(bucket, world, index_log.create(bucket, world, definition))
    table._reads = Reads(world, lambda: Fetcher(world.pool, MemoryStore(0)))
    return table, bucket


def fetched(bucket: Metered, read: object) -> int:
    """How many requests for chunks ``read`` sends."""
    bucket.reset()
    read()  # type: ignore[operator]
    return bucket.counts["get"] + bucket.counts["get_range"]


def put(table: Table, *ids: int, n: int = 0, labels: Mapping[str, str] | None = None) -> None:
    rows = rows_of(*({"id": one, "name": "a", "n": n} for one in ids))
    table.upsert(rows, labels=labels)


def test_a_second_scan_reads_no_identity() -> None:
    table, bucket = keyed()
    put(table, 1, 2, 3)
    put(table, 2, 3, n=1)
    scan = table.snapshot().scan(columns=["n"])
    first = fetched(bucket, scan.to_table)
    assert fetched(bucket, scan.to_table) == 2 < first
    assert fetched(bucket, table.snapshot().count) == 0
    assert fetched(bucket, lambda: table.delete("n = 5", dry_run=True)) == 2


def test_a_condition_reads_only_what_it_leaves() -> None:
    table, bucket = keyed()
    put(table, 1, 2, 3)
    put(table, 2, 3, n=1)
    put(table, 7, 8)
    point = table.snapshot().scan(where="id = 8")
    fetched(bucket, point.to_table)
    assert fetched(bucket, point.to_table) == 1


def test_a_new_block_of_changes_is_looked_at_where_it_can_hide_rows() -> None:
    table, bucket = keyed()
    put(table, *range(10))
    put(table, *range(100, 110))
    put(table, *range(10), labels={"site": "b"})
    scan = table.snapshot().scan(columns=["n"])
    scan.to_table()
    put(table, 3, n=9)
    later = table.snapshot().scan(columns=["n"])
    # Its own rows, once for what it hides and for its tombstones; the block that it meets; and of
    # each of the four blocks the column.
    assert fetched(bucket, later.to_table) == 1 + 1 + 4
    assert fetched(bucket, later.to_table) == 4
    assert fetched(bucket, scan.to_table) == 3
    assert sorted(later.to_table()["n"].to_pylist()) == [0] * 29 + [9]


def test_a_new_block_that_can_hide_nothing_costs_its_own_tombstones() -> None:
    table, bucket = keyed()
    put(table, *range(10))
    table.snapshot().count()
    put(table, *range(20, 25))
    scan = table.snapshot().scan(columns=["id"])
    assert fetched(bucket, scan.to_table) == 2 + 1
    assert table.snapshot().count() == 15


def test_changes_of_new_rows_with_ids_read_their_own_block_alone() -> None:
    table, bucket = _made(Definition.create(BY_ID, row_ids=True))
    for _ in range(3):
        table.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    table.set_cells([{"_row_id": 3, "n": 7}])
    # Which ids the write has follows from the index: no chunk of it is read.
    assert fetched(bucket, table.snapshot().count) == 1
    assert fetched(bucket, table.snapshot().count) == 0
    assert table.snapshot().count() == 6


def test_rows_that_are_changed_again_and_again_cost_what_is_new() -> None:
    """Of the last change its identities and its rows; of the others it is known which rows they
    have, and none of these is left that is asked for."""
    table, bucket = keyed()
    put(table, *range(100))
    for step in range(1, 8):
        table.update({"n": step}, where="id BETWEEN 10 AND 19")
        found = table.snapshot().scan(columns=["n"], where="id BETWEEN 10 AND 19")
        # And once the identities of the rows that it changed first.
        assert fetched(bucket, found.to_table) == (3 if step == 1 else 2)
        assert found.to_table()["n"].to_pylist() == [step] * 10
    rest = table.snapshot().scan(columns=["id"], where="id BETWEEN 9 AND 12").to_table()
    assert sorted(rest["id"].to_pylist()) == [9, 10, 11, 12]
    table.delete("id = 15")
    assert table.snapshot().scan(where="id BETWEEN 10 AND 19").to_table().num_rows == 9
    assert table.snapshot().scan(where="id = 15 OR id = 99").to_table()["id"].to_pylist() == [99]


def test_columns_of_large_chunks_are_not_kept_and_displace_nothing() -> None:
    cache = HiddenCache(80_000)
    chunk = Store().chunk("a", [1, 2, 3], 1)
    stored = {"id": "id"}
    cache.keep_positions("changes", chunk, np.arange(3))
    for number in range(60):
        small = pa.array(range(100 + number))
        other = replace(chunk, version=number + 2)
        cache.keep_columns(other, stored, {"id": small})
        assert cache.columns(other, stored) == {"id": small}
        assert cache.columns(other, {"id": "another"}) is None
        assert cache.columns(other, {**stored, DELETED: DELETED}) is None
    assert cache.bytes <= 80_000
    assert cache.positions("changes", chunk) is not None
    large = pa.array(range(100_000))
    cache.keep_columns(chunk, stored, {"id": large.slice(5, 10)})
    assert cache.columns(chunk, stored) is None, "the slice would keep all that it was cut from"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = keyed()
    table._reads.hidden = cache = HiddenCache(3_000)  # type: ignore[misc]
    for step in range(30):
        put(table, step, step + 1, n=step)
        assert table.snapshot().count() == step + 2
        assert cache.bytes <= 3_000
    assert cache.bytes > 0


def test_threads_find_the_same() -> None:
    table, _ = keyed()
    for step in range(6):
        put(table, *range(step, step + 5), n=step)
    snapshots = [table.snapshot(version=version) for version in range(2, 8)] * 8
    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(lambda snapshot: snapshot.count(), snapshots))
    assert counts == [5, 6, 7, 8, 9, 10] * 8


def test_an_update_reads_as_little_after_many_of_the_same_rows() -> None:
    table, bucket = keyed()
    put(table, *range(10))
    found = []
    for step in range(8):
        reads = fetched(bucket, lambda n=step: table.update({"n": n + 1}, where="id < 5"))
        found.append(reads)
        assert table.snapshot().scan(where="n = 0").to_table().num_rows == 5
    assert found[3:] == [found[3]] * 5
    assert table.snapshot(version=4).scan(columns=["n"]).to_table()["n"].to_pylist().count(2) == 5


@dataclass
class Store:
    """Chunks by hand, and what is read of them."""

    rows: dict[str, dict[str, pa.Array]] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)

    def chunk(
        self,
        key: str,
        ids: Sequence[int],
        version: int,
        *,
        kind: BlockKind = BlockKind.CHANGES,
        deleted: Sequence[int] = (),
        stream: StreamKey | None = None,
    ) -> ScanChunk:
        self.rows[key] = {
            "id": pa.array(ids),
            VERSION: pa.array([version] * len(ids)),
            DELETED: pa.array([one in deleted for one in ids]),
        }
        return ScanChunk(
            block=key,
            key=key,
            file=ChunkFile(path=key, bytes=1, rows=len(ids), sha256=key),
            schema_id=1,
            labels={},
            source=key,
            version=version,
            first_row_id=None,
            kind=kind,
            identity_stats=ColumnStats(min(ids), max(ids), 0),
            **({} if stream is None else {"stream": stream}),
        )

    def __call__(
        self, chunks: Sequence[ScanChunk], names: Sequence[str]
    ) -> Iterator[Mapping[str, pa.Array]]:
        for chunk in chunks:
            self.read += [f"{chunk.key}.{name}" for name in names]
            yield {name: self.rows[chunk.key][name] for name in names}

    def hidden(
        self, chunks: Sequence[ScanChunk], changes: Sequence[ScanChunk], cache: HiddenCache
    ) -> dict[str, list[int]]:
        self.read.clear()
        found = hidden_rows(chunks, changes, BY_ID_KEY, self, cache)
        return {key: positions.tolist() for key, positions in found.items()}


@given(
    made=st.lists(
        st.tuples(
            st.sets(st.integers(0, 5), min_size=1), st.sets(st.integers(0, 5)), st.booleans()
        ),
        min_size=2,
        max_size=6,
    ),
    asked=st.lists(st.tuples(IDS, st.integers(0, 5)), max_size=8),
)
def test_what_is_kept_of_some_changes_serves_those_of_more(
    made: list[tuple[set[int], set[int], bool]], asked: list[tuple[set[int], int]]
) -> None:
    """Queries of any blocks, of the newest version and of older ones, in any order."""
    store, cache = Store(), HiddenCache()
    chunks = [
        store.chunk(
            f"c{place}", sorted(ids), place + 1,
            kind=BlockKind.PLAIN if plain else BlockKind.CHANGES,
            deleted=() if plain else sorted(ids & gone),
        )
        for place, (ids, gone, plain) in enumerate(made)
    ]  # fmt: skip
    for left_out, newest in asked:
        there = [
            chunk for place, chunk in enumerate(chunks) if place <= newest and place not in left_out
        ]
        changes = [chunk for chunk in there if chunk.kind is BlockKind.CHANGES]
        kept = store.hidden(there, changes, cache)
        assert kept == store.hidden(there, changes, HiddenCache())


def test_versions_of_the_same_bytes_are_kept_apart() -> None:
    """A block that another index names, as one rebuilt, has other versions."""
    store, cache = Store(), HiddenCache()
    old = store.chunk("a", [1, 2], 5, kind=BlockKind.PLAIN)
    change = store.chunk("b", [2], 6)
    assert store.hidden([old, change], [change], cache) == {"a": [1]}
    store.rows["a"][VERSION] = pa.array([7, 7])
    newer = replace(old, version=7)
    assert store.hidden([newer, change], [change], cache) == {}
    assert store.hidden([old, change], [change], cache) == {"a": [1]}
    assert store.read == []


def test_what_is_hidden_is_kept_for_one_identity() -> None:
    """Two tables may have the same files, and other keys."""
    store, cache = Store(), HiddenCache()
    older, newer = store.chunk("older", [1, 2], 1), store.chunk("newer", [1, 2], 2)
    store.rows["older"]["other"] = pa.array([1, 2])
    store.rows["newer"]["other"] = pa.array([3, 4])
    chunks, unknown = [older, newer], Key(("other",))
    free = [replace(one, identity_stats=None) for one in chunks]
    assert list(hidden_rows(chunks, chunks, BY_ID_KEY, store, cache)) == ["older"]
    assert hidden_rows(free, free, unknown, store, cache) == {}
    assert list(hidden_rows(chunks, chunks, BY_ID_KEY, store, cache)) == ["older"]


def test_chunks_of_changes_hide_only_older_ones_that_they_meet() -> None:
    store, cache = Store(), HiddenCache()
    one = store.chunk("one", [1, 2, 3], 2)
    two = store.chunk("two", [7, 8, 9], 3, deleted=[8])
    change = store.chunk("change", [2, 3, 4], 4, deleted=[3])
    every = [one, two, change]
    assert store.hidden(every, every, cache) == {"one": [1, 2], "two": [1], "change": [1]}
    assert not any(read.startswith("two.id") for read in store.read)
    assert store.hidden(every, every, cache) == {"one": [1, 2], "two": [1], "change": [1]}
    assert store.read == []


def test_texts_of_numbers_have_no_order() -> None:
    """A decimal is stored as a text, and 9.50 is not above 10.25."""
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    schema = pa.schema([("k", pa.decimal128(6, 2)), ("n", pa.int64())])
    table = Table(
        bucket, world, index_log.create(bucket, world, Definition.create(schema, key="k"))
    )
    for n, keys in enumerate(([9, 10, 11], [10], [100, 9])):
        table.upsert(pa.table({"k": pa.array(keys, pa.decimal128(6, 2)), "n": [n] * len(keys)}))
    assert [(int(row["k"]), row["n"]) for row in seen(table)] == [
        (10, 1),
        (100, 2),
        (11, 0),
        (9, 2),
    ]


IDS = RowIds()


@pytest.mark.parametrize(
    ("stats", "first", "rows", "meets"),
    [
        (ColumnStats(5, 6, 0), 100, 2, True),
        (ColumnStats(8, 9, 0), 100, 2, False),
        (ColumnStats(8, 9, 1), 100, 3, False),
        (ColumnStats(2, 3, 1), 6, 3, True),
        (ColumnStats(None, None, 2), 100, 2, False),
        (ColumnStats(None, None, 2), 6, 2, True),
        (ColumnStats(None, None, 1), 100, 2, True),
        (None, 100, 2, True),
    ],
)
def test_the_range_of_a_change_by_row_id_has_its_new_rows(
    stats: ColumnStats | None, first: int, rows: int, meets: bool
) -> None:
    store = Store()
    old = replace(store.chunk("old", [0, 1, 2], 2, kind=BlockKind.PLAIN), first_row_id=4)
    hider = replace(store.chunk("new", list(range(rows)), 3), first_row_id=first)
    assert bool(Hiders([replace(hider, identity_stats=stats)], IDS).of(old)) is meets
    older = replace(hider, identity_stats=stats, version=2)
    assert not Hiders([older], IDS).of(old)


def test_positions_are_sorted_whatever_the_order_of_the_changes() -> None:
    store, cache = Store(), HiddenCache()
    old = store.chunk("old", list(range(50)), 2, kind=BlockKind.PLAIN)
    change = store.chunk("change", [40, 3, 17], 3)
    found = hidden_rows([old], [change], BY_ID_KEY, store, cache)
    assert np.array_equal(found["old"], [3, 17, 40])
