"""Texts that are numbers of a dictionary go through a merge as numbers, and the result is that of
texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.compactor.merge import DamagedInput, MergeInput, chunkrun, spill
from blockstore.compactor.merge import local as engine
from blockstore.compactor.merge.codes import carried, with_small_dictionaries
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.names import object_key
from tests.compactor.merge.blocks import Bench
from tests.support.examples import few

SCHEMA = pa.schema(
    [("id", pa.int64()), ("kind", pa.string()), ("note", pa.string()), ("tenant", pa.string())]
)
KINDS = ["alpha", "beta", "gamma", "d" * 5_000, "", "é"]


def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, Definition.create(SCHEMA, sort_by=["tenant", "id"]))


def rows(seed: int, count: int = 20_000, kinds: list[str] | None = None) -> pa.Table:
    rng = np.random.default_rng(seed)
    some = [*(kinds or KINDS), None]
    return pa.table(
        {
            "id": pa.array(np.sort(rng.integers(0, 10 * count, count))),
            "kind": pa.array([some[n] for n in rng.integers(0, len(some), count)], pa.string()),
            "note": pa.array([f"{n:016x}" for n in rng.integers(0, 2**63, count)]),
            "tenant": pa.array([f"t{n}" for n in np.sort(rng.integers(0, 3, count))]),
        }
    )


def files(at: Bench, meta: BlockMeta) -> list[bytes]:
    return [at.bucket.get(object_key(meta.ulid, file.path)).data for file in meta.files]


def opened(at: Bench, meta: BlockMeta) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(files(at, meta)[0]))


def as_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No column is carried as numbers."""
    monkeypatch.setattr(engine, "carried", lambda files, schema, sort_by: frozenset())


def carried_in(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """What each merge from now on carries as numbers."""
    seen: list[frozenset[str]] = []

    def watched(*asked: object) -> frozenset[str]:
        seen.append(carried(*asked))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(engine, "carried", watched)
    return seen


def test_a_merge_of_numbers_writes_the_bytes_that_a_merge_of_texts_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = bench(tmp_path)
    metas = [at.block(rows(seed, kinds=KINDS[seed:] or None)) for seed in range(4)]
    inputs = [MergeInput(meta=meta) for meta in metas]
    inputs[0] = MergeInput(meta=metas[0], excepted=frozenset({metas[0].ulid}))
    seen = carried_in(monkeypatch)
    one, _ = at.merge(inputs, memory_bytes=1 << 30)
    assert seen == [{"kind"}]
    as_texts(monkeypatch)
    other, _ = at.merge(inputs, memory_bytes=1 << 30)
    assert files(at, one) == files(at, other)
    assert one.files[0].columns == other.files[0].columns
    assert opened(at, one).schema_arrow.field("kind").type == pa.string()


def test_a_row_group_is_no_larger_than_its_texts_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are small, but a reader of the row group may hold texts."""
    at = bench(tmp_path)
    metas = [at.block(rows(seed)) for seed in range(4)]
    seen = carried_in(monkeypatch)
    block, _ = at.merge(metas, memory_bytes=1 << 26)
    assert seen == [{"kind"}]
    file = opened(at, block)
    assert block.rows == 80_000
    assert max(file.read_row_group(n).nbytes for n in range(file.num_row_groups)) < 1.1 * (8 << 20)


@settings(
    max_examples=few(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    blocks=st.lists(
        st.tuples(st.integers(0, 99), st.booleans(), st.lists(st.sampled_from(KINDS), min_size=1)),
        min_size=1,
        max_size=4,
    ),
    memory_bytes=st.sampled_from([1, 4 << 20, 1 << 30]),
)
def test_whatever_the_chunks_hold_the_rows_are_those_of_texts(
    tmp_path: Path, blocks: list[tuple[int, bool, list[str]]], memory_bytes: int
) -> None:
    """Also where chunks that were not looked at hold no dictionary, or rows come over the work
    disk."""
    at = bench(tmp_path)
    metas = [at.block(rows(seed, 12_000 if large else 300, kinds)) for seed, large, kinds in blocks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "carried", lambda files, schema, sort_by: frozenset({"kind", "note"}))
        block, _ = at.merge(metas, memory_bytes=memory_bytes)
    expected = pa.concat_tables([at.rows(meta) for meta in metas])
    expected = expected.sort_by([("tenant", "ascending"), ("id", "ascending")])
    found = at.rows(block)
    names = ["tenant", "id"]
    assert found.select(names).equals(expected.select(names))
    key = [*names, "note", "kind"]
    order = [(name, "ascending") for name in key]
    assert found.select(key).sort_by(order).equals(expected.select(key).sort_by(order))


def test_a_row_group_has_one_dictionary_of_sources_however_many_windows_it_is_made_of(
    tmp_path: Path,
) -> None:
    """With one of each window's own, all but the first window's sources would be stored as texts
    of 26 characters."""
    at = bench(tmp_path)
    metas = [
        at.block(
            rows(seed, 5_000, ["alpha"]).set_column(3, "tenant", pa.array([f"t{seed:02}"] * 5_000))
        )
        for seed in range(20)
    ]
    block, _ = at.merge(metas, memory_bytes=16 << 20)
    file = opened(at, block)
    group = file.metadata.row_group(0)
    source = group.column(group.num_columns - 1)
    assert source.path_in_schema == "_source"
    assert group.num_rows > 2 * 5_000
    assert source.total_uncompressed_size < 2 * group.num_rows
    assert set(at.rows(block)["_source"].to_pylist()) == {meta.ulid for meta in metas}


def test_a_chunk_older_than_the_column_has_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = bench(tmp_path)
    old = at.definition
    at.definition = evolve(old, add=[pa.field("colour", pa.string())])
    before = at.block(rows(0, 300), definition=old)
    after = at.block(rows(1).append_column("colour", pa.array(["red", "green"] * 10_000)))
    monkeypatch.setattr(
        engine, "carried", lambda files, schema, sort_by: frozenset({"colour", "kind"})
    )
    block, _ = at.merge([before, after])
    found = at.rows(block)
    assert found["colour"].null_count == 300
    assert sorted(found["colour"].drop_null().to_pylist()) == ["green"] * 10_000 + ["red"] * 10_000
    assert opened(at, block).schema_arrow.equals(at.rows(block).schema, check_metadata=False)


def test_a_chunk_that_finds_no_room_comes_back_from_the_work_disk_as_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = bench(tmp_path)
    metas = [at.block(rows(seed, kinds=["alpha", "beta"])) for seed in range(3)]
    packed: list[Path] = []

    def watched(
        tables: Iterable[pa.Table], schema: pa.Schema, path: Path, *, batch_bytes: int
    ) -> spill.SpilledRun:
        packed.append(path)
        return spill.pack(tables, schema, path, batch_bytes=batch_bytes)

    monkeypatch.setattr(chunkrun, "pack", watched)
    monkeypatch.setattr(engine, "_READERS", 1 << 20)
    monkeypatch.setattr(engine._Attempt, "_open_limit", lambda self: 99)
    seen = carried_in(monkeypatch)
    block, _ = at.merge(metas, memory_bytes=4 << 20)
    assert packed
    assert seen == [{"kind"}]
    as_texts(monkeypatch)
    other, _ = at.merge(metas, memory_bytes=4 << 20)
    found, expected = at.rows(block), at.rows(other)
    assert all(
        found[name].to_pylist() == expected[name].to_pylist() for name in expected.schema.names
    )


def rewritten(at: Bench, meta: BlockMeta, data: bytes) -> BlockMeta:
    """The block, whose only chunk is these bytes."""
    file = replace(meta.files[0], bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    at.bucket.put(object_key(meta.ulid, file.path), data)
    return replace(meta, files=(file,), bytes=len(data))


def test_a_number_that_no_text_of_the_dictionary_has_is_damage_of_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer of the chunk hashed bytes that were wrong already.

    Arrow itself would write whatever text lies in memory there.
    """
    at = bench(tmp_path)
    good, bad = at.block(rows(0)), at.block(rows(1, kinds=["one", "two", "three"]))
    sink = pa.BufferOutputStream()
    table = at.rows(bad).select(SCHEMA.names)
    pq.write_table(table, sink, compression="none", use_dictionary=["kind"], write_statistics=False)
    whole = sink.getvalue().to_pybytes()
    assert at.merge([good, rewritten(at, bad, whole)])[0].rows == 40_000
    # Behind some 2,500 bytes that say which rows are null.
    page = pq.read_metadata(pa.BufferReader(whole)).row_group(0).column(1).data_page_offset
    refused = 0
    for place in range(page + 3_000, page + 3_200, 3):
        damaged = whole[:place] + b"\xff" + whole[place + 1 :]
        seen = carried_in(monkeypatch)
        try:
            block, _ = at.merge([good, rewritten(at, bad, damaged)])
        except DamagedInput as error:
            refused += error.ulid == bad.ulid
        else:
            assert set(at.rows(block)["kind"].to_pylist()) <= {*KINDS, "one", "two", "three", None}
        assert seen == [{"kind"}]
    assert refused > 20, "the fourth of two bits' numbers is none of three words"


def test_only_columns_that_all_files_hold_as_numbers_of_small_dictionaries_are_carried() -> None:
    def read_as(table: pa.Table, dictionaries: list[str]) -> list[str]:
        sink = pa.BufferOutputStream()
        pq.write_table(
            table, sink, use_dictionary=dictionaries, compression="zstd", row_group_size=10_000
        )
        file = pa.BufferReader(sink.getvalue())
        return with_small_dictionaries(file, pq.ParquetFile(file), None, [0, 1])

    similar = [f"{'the same beginning of many words ' * 20}{n % 250}" for n in range(20_000)]
    table = rows(0, kinds=["one", "two"]).append_column("similar", pa.array(similar))
    coded = read_as(table, ["kind", "tenant", "similar"])
    assert sorted(coded) == ["kind", "tenant"], (
        "the third takes little in the file, and 165 kB in every batch"
    )
    plain = read_as(table, ["tenant"])
    assert carried([coded, coded], table.schema, ["tenant", "id"]) == {"kind"}
    assert carried([coded], table.schema, ["id"]) == {"kind", "tenant"}
    assert carried([coded, plain], table.schema, ["id"]) == {"tenant"}
    assert carried([], table.schema, []) == frozenset()


def test_dictionaries_of_many_columns_have_one_limit() -> None:
    names = [f"c{n:02}" for n in range(40)]
    table = pa.table(
        {name: [f"{name}-{'x' * 90}-{n % 10}" for n in range(2_000)] for name in names}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    file = pa.BufferReader(sink.getvalue())
    assert with_small_dictionaries(file, pq.ParquetFile(file), None, [0]) == names[:16]


def test_the_largest_chunk_has_a_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the small ones hold, it has most of the rows."""
    at = bench(tmp_path)
    metas = [at.block(rows(seed, 10_000, ["alpha"])) for seed in range(3)]
    seen = carried_in(monkeypatch)
    at.merge(metas)
    other = rows(9, 150_000, ["alpha"])
    assert at.merge([*metas, at.block(other)], memory_bytes=1 << 26)[0].rows == 180_000
    texts = other.set_column(1, "kind", other["note"])
    assert at.merge([*metas, at.block(texts)], memory_bytes=1 << 26)[0].rows == 180_000
    assert seen == [{"kind"}, {"kind"}, frozenset()]
