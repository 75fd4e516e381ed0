"""The local engine over real chunks: the same rows, in order, each with its source; or an error
that names the block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.compactor.merge import DamagedInput, MergeInput
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.names import object_key
from tests.compactor.merge.blocks import Bench
from tests.compactor.merge.tables import KEY_TYPES, keyed_runs, sort_stable
from tests.support.examples import few
from tests.support.raw_text import raw_text, unchecked

SCHEMA = pa.schema(
    [("k", pa.string()), ("time", pa.timestamp("ms", tz="UTC")), ("row", pa.int32())]
)
quick = settings(
    max_examples=few(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def bench(tmp_path: Path, *, sort_by: tuple[str, ...] = ("k", "time")) -> Bench:
    return Bench(tmp_path, Definition.create(SCHEMA, time_column="time", sort_by=sort_by))


def rows(count: int, *, seed: int = 0, first: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "k": pa.array(rng.choice(["a", "b", "c", None], count), pa.string()),
            "time": pa.array(rng.integers(0, 1000, count), pa.timestamp("ms", tz="UTC")),
            "row": pa.array(np.arange(first, first + count), pa.int32()),
        }
    )


def content(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("row", "_source")), strict=True))


def is_sorted(table: pa.Table, keys: list[str]) -> bool:
    return table["row"].to_pylist() == sort_stable(table, keys)["row"].to_pylist()


@quick
@given(case=keyed_runs(), memory_bytes=st.sampled_from([1, 1 << 16, 1 << 30]), data=st.data())
def test_a_merge_is_the_stable_sort_of_all_rows_that_are_shown(
    tmp_path: Path, case: tuple[list[str], list[pa.Table]], memory_bytes: int, data: st.DataObject
) -> None:
    keys, tables = case
    schema = pa.schema([*((name, KEY_TYPES[name][0]) for name in keys), ("row", pa.int64())])
    at = Bench(tmp_path, Definition.create(schema, sort_by=keys))
    metas = [at.block(table) for table in tables if table.num_rows]
    if not metas:
        return
    hidden = data.draw(st.sets(st.sampled_from([meta.ulid for meta in metas])))
    inputs = [MergeInput(meta=meta, excepted=frozenset(hidden & {meta.ulid})) for meta in metas]
    block, merged = at.merge(inputs, memory_bytes=memory_bytes)
    shown = [sort_stable(at.rows(meta), keys) for meta in metas if meta.ulid not in hidden]
    expected = sort_stable(pa.concat_tables(shown), keys)["row"].to_pylist() if shown else []
    found = at.rows(block)["row"].to_pylist() if block.files else []
    assert found == expected
    assert merged.written.rows + merged.dropped_rows == sum(meta.rows for meta in metas)
    assert list(tmp_path.iterdir()) == []


@quick
@given(
    blocks=st.lists(
        st.lists(
            st.none()
            | st.binary(max_size=2)
            | st.sampled_from([b"a", b"\xc3\xa9", b"\xf0\x90\x80\x80"])
        ),
        min_size=1,
        max_size=4,
    ),
    memory_bytes=st.sampled_from([1, 1 << 30]),
)
def test_text_that_is_no_utf8_is_merged_in_the_order_of_its_bytes(
    tmp_path: Path, blocks: list[list[bytes | None]], memory_bytes: int
) -> None:
    """Other programs write it; a block that holds it keeps no other from being merged."""
    at = Bench(
        tmp_path,
        Definition.create(pa.schema([("k", pa.string()), ("row", pa.int64())]), sort_by=["k"]),
    )
    with unchecked():
        metas = [
            at.block(
                pa.table({"k": raw_text(values), "row": pa.array(range(len(values)), pa.int64())})
            )
            for values in blocks
            if values
        ]
    if not metas:
        return
    block, _ = at.merge(metas, memory_bytes=memory_bytes)
    expected = sorted(
        (value for values in blocks for value in values), key=lambda one: (one is None, one)
    )
    assert at.rows(block)["k"].cast(pa.binary()).to_pylist() == expected
    assert list(tmp_path.iterdir()) == []


def test_many_chunks_with_text_that_is_no_utf8_are_merged_over_the_work_disk(
    tmp_path: Path,
) -> None:
    at = Bench(
        tmp_path,
        Definition.create(pa.schema([("k", pa.string()), ("row", pa.int64())]), sort_by=["k"]),
    )
    rng = np.random.default_rng(0)
    with unchecked():
        metas = [
            at.block(
                pa.table(
                    {
                        "k": raw_text(
                            [bytes(one) for one in rng.integers(0, 256, (4_000, 3), np.uint8)]
                        ),
                        "row": np.arange(4_000),
                    }
                )
            )
            for _ in range(40)
        ]
    block, _ = at.merge(metas, memory_bytes=1 << 20)
    found = at.rows(block)["k"].cast(pa.binary()).to_pylist()
    assert len(found) == 160_000
    assert found == sorted(found)


def test_the_result_says_where_each_row_came_from_over_two_generations(tmp_path: Path) -> None:
    at = bench(tmp_path)
    a, b, c = (at.block(rows(50, seed=n, first=100 * n)) for n in range(3))
    first, _ = at.merge([a, b])
    second, _ = at.merge([first, c])
    owners = {0: a.ulid, 1: b.ulid, 2: c.ulid}
    found = content(at.rows(second))
    assert found == sorted(
        (row, owners[row // 100]) for n in range(3) for row in range(100 * n, 100 * n + 50)
    )
    assert (first.level, second.level) == (2, 3)
    assert second.sources == tuple(sorted(owners.values()))
    assert [parent.ulid for parent in second.parents] == [first.ulid, c.ulid]
    assert not second.own
    assert is_sorted(at.rows(second), ["k", "time"])


def test_rows_of_excepted_sources_go_but_the_result_still_accounts_for_them(tmp_path: Path) -> None:
    at = bench(tmp_path)
    a, b, c = (at.block(rows(50, seed=n, first=100 * n)) for n in range(3))
    ab, _ = at.merge([a, b])
    block, merged = at.merge([MergeInput(meta=ab, excepted=frozenset({a.ulid})), c])
    assert sorted(at.rows(block)["row"].to_pylist()) == [*range(100, 150), *range(200, 250)]
    assert merged.dropped_rows == 50
    assert set(block.sources) == {a.ulid, b.ulid, c.ulid}


def test_older_schemas_are_filled_and_widened(tmp_path: Path) -> None:
    at = bench(tmp_path)
    old = at.block(rows(20))
    at.definition = evolve(
        at.definition, add=[pa.field("note", pa.string())], widen={"row": pa.int64()}
    )
    new = at.block(
        rows(20, first=20)
        .cast(at.definition.schema.remove(3))
        .append_column("note", pa.array(["x"] * 20))
    )
    block, _ = at.merge([old, new])
    table = at.rows(block)
    assert table.schema.field("row").type == pa.int64()
    assert sorted(zip(table["row"].to_pylist(), table["note"].to_pylist(), strict=True)) == [
        *((row, None) for row in range(20)),
        *((row, "x") for row in range(20, 40)),
    ]
    assert block.schema_id == 2


def test_chunks_of_one_block_are_merged_with_each_other_too(tmp_path: Path) -> None:
    at = bench(tmp_path)
    block, _ = at.merge(
        [at.block(rows(30), rows(30, seed=1, first=30)), at.block(rows(30, seed=2, first=60))]
    )
    assert is_sorted(at.rows(block), ["k", "time"])
    assert sorted(at.rows(block)["row"].to_pylist()) == list(range(90))


def test_a_large_result_is_sorted_across_its_chunks(tmp_path: Path) -> None:
    at = bench(tmp_path)
    inputs = [at.block(rows(40_000, seed=n, first=40_000 * n)) for n in range(4)]
    block, _ = at.merge(inputs, memory_bytes=8 << 20, chunk_bytes=200_000)
    assert len(block.chunks) > 1
    table = at.rows(block)
    assert is_sorted(table.select(["k", "time", "row"]).combine_chunks(), ["k", "time"])
    assert sorted(table["row"].to_pylist()) == list(range(160_000))


def test_without_a_sort_key_blocks_follow_one_another_by_ulid(tmp_path: Path) -> None:
    at = bench(tmp_path, sort_by=())
    inputs = [at.block(rows(30, seed=n, first=30 * n)) for n in range(3)]
    block, _ = at.merge(inputs)
    assert at.rows(block)["row"].to_pylist() == list(range(90))


def test_many_inputs_in_little_memory_are_merged_in_passes_that_leave_no_file(
    tmp_path: Path,
) -> None:
    at = bench(tmp_path)
    inputs = [at.block(rows(20, seed=n, first=20 * n)) for n in range(30)]
    block, _ = at.merge(inputs, memory_bytes=1)
    whole, _ = at.merge(inputs)
    assert at.rows(block).equals(at.rows(whole))
    assert list(tmp_path.iterdir()) == []


def test_an_unsorted_chunk_is_sorted_first_and_noted(tmp_path: Path) -> None:
    at = bench(tmp_path)
    wild = at.block(rows(500), presorted=True)
    block, merged = at.merge([wild, at.block(rows(500, seed=1, first=500))])
    assert is_sorted(at.rows(block), ["k", "time"])
    assert sorted(at.rows(block)["row"].to_pylist()) == list(range(1000))
    assert wild.ulid in merged.notes[0]
    assert "not sorted" in merged.notes[0]


def test_the_same_inputs_give_the_same_bytes_however_much_memory_there_is(tmp_path: Path) -> None:
    at = bench(tmp_path)
    inputs = [at.block(rows(3000, seed=n, first=3000 * n)) for n in range(5)]
    results = [at.merge(inputs, memory_bytes=size)[0] for size in (1, 1 << 20, 1 << 30)]
    assert len({tuple(at.rows(block)["row"].to_pylist()) for block in results}) == 1


def damaged(at: Bench, meta: BlockMeta, change: str) -> BlockMeta:
    key = object_key(meta.ulid, meta.files[0].path)
    data = at.bucket.get(key).data
    if change == "missing":
        at.bucket.delete([key])
    elif change == "short":
        at.bucket.put(key, data[:-1])
    elif change == "long":
        at.bucket.put(key, data + b"x")
    elif change == "flipped":
        at.bucket.put(key, data[:100] + bytes([data[100] ^ 1]) + data[101:])
    elif change == "rows":
        return replace(meta, files=(replace(meta.files[0], rows=meta.files[0].rows + 1),))
    return meta


@pytest.mark.parametrize("change", ["missing", "short", "long", "flipped", "rows"])
@pytest.mark.parametrize("memory_bytes", [1, 1 << 30])
def test_a_damaged_input_ends_the_merge_and_is_named(
    tmp_path: Path, change: str, memory_bytes: int
) -> None:
    at = bench(tmp_path)
    good = at.block(rows(2000, seed=1))
    bad = damaged(at, at.block(rows(2000)), change)
    with pytest.raises(DamagedInput, match=bad.ulid) as found:
        at.merge([good, bad], memory_bytes=memory_bytes)
    assert found.value.ulid == bad.ulid
    assert list(tmp_path.iterdir()) == []


def test_a_row_of_an_unlisted_source_ends_the_merge(tmp_path: Path) -> None:
    at = bench(tmp_path)
    a, b = at.block(rows(10)), at.block(rows(10, seed=1))
    merged, _ = at.merge([a, b])
    with pytest.raises(DamagedInput, match="which no block of the merge lists"):
        at.merge([replace(merged, sources=(a.ulid,)), at.block(rows(10))])
