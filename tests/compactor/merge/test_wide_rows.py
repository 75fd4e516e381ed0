"""A merge stays within its memory where rows weigh much more than the bytes they are read from, or
than the rows before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.names import object_key
from tests.compactor.merge.blocks import Bench
from tests.compactor.merge.tables import sort_stable
from tests.compactor.merge.test_memory import MIB, watched
from tests.support.parquet import parquet

SCHEMA = pa.schema([("kind", pa.string()), ("k", pa.int64()), ("body", pa.string())])
LIMIT = 16 * MIB
SLACK = 8 * MIB
"""What Parquet's readers and writers take by themselves, and one page."""


def rows(bodies: Iterable[str | None], *, narrow: int = 0, first: int = 0) -> pa.Table:
    """``narrow`` rows without a body, then one for each body."""
    texts = [None] * narrow + list(bodies)
    kinds = ["a"] * narrow + ["b"] * (len(texts) - narrow)
    return pa.table(
        {"kind": kinds, "k": range(first, first + len(texts)), "body": texts}, schema=SCHEMA
    )


def repeated(count: int, width: int) -> list[str]:
    """Texts of which a page holds a few kB, however many there are."""
    return ["x" * width + str(row % 5) for row in range(count)]


def random(count: int, width: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [rng.bytes(width // 2).hex() for _ in range(count)]


def older(at: Bench, meta: BlockMeta) -> BlockMeta:
    """The block as written by a program that records nothing about its pages."""
    file = meta.files[0]
    key = object_key(meta.ulid, file.path)
    data = parquet(at.rows(meta), "dictionary", index=False).read()
    at.bucket.put(key, data)
    found = replace(file, bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), footer=None)
    return replace(meta, files=(found,), segments=None)


def check(
    tmp_path: Path,
    tables: Iterator[pa.Table],
    *sort_by: str,
    written: Callable[[Bench, BlockMeta], BlockMeta] = lambda _, meta: meta,
) -> None:
    """The merge of a block a table, in little memory: within it, and row for row what it is in
    much."""
    at = Bench(tmp_path, Definition.create(SCHEMA, sort_by=sort_by))
    metas = [written(at, at.block(table)) for table in tables]
    with watched() as peak:
        block, _ = at.merge(metas, memory_bytes=LIMIT)
    merged = at.rows(block).drop_columns(["_source"])
    assert merged.nbytes > 2 * (LIMIT + SLACK), "the bound below could not fail"
    assert peak[0] < LIMIT + SLACK, f"{peak[0] / MIB:.1f} MiB"
    whole = pa.concat_tables(at.rows(meta).select(SCHEMA.names) for meta in metas)
    expected = sort_stable(whole, list(sort_by)) if sort_by else whole
    assert merged.cast(SCHEMA).equals(expected.cast(SCHEMA))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("narrow", "wide"), [(2_000, 3_000), (60_000, 3_000)])
@pytest.mark.parametrize("repeat", [True, False])
def test_wide_rows_that_follow_narrow_ones(
    tmp_path: Path, narrow: int, wide: int, repeat: bool
) -> None:
    bodies = [repeated(wide, 4_000) if repeat else random(wide, 4_000, seed) for seed in range(6)]
    check(tmp_path, (rows(body, narrow=narrow) for body in bodies), "kind", "k")


def test_small_blocks_of_long_texts_that_repeat_and_are_in_one_page(tmp_path: Path) -> None:
    check(tmp_path, (rows(repeated(300, 20_000)) for _ in range(12)), "k")


def test_long_texts_that_a_dictionary_holds(tmp_path: Path) -> None:
    check(tmp_path, (rows(repeated(12_000, 3_000)) for _ in range(6)), "k")


def test_a_sort_key_of_long_texts_that_repeat(tmp_path: Path) -> None:
    tables = (
        pa.table(
            {
                "kind": [f"{row // 500:02d}" + "k" * 5_000 for row in range(12_000)],
                "k": range(12_000),
                "body": [None] * 12_000,
            },
            schema=SCHEMA,
        )
        for _ in range(6)
    )
    check(tmp_path, tables, "kind")


@pytest.mark.parametrize("sort_by", [("k",), ("kind", "k"), ()])
@pytest.mark.parametrize("in_a_row", [True, False])
def test_many_small_blocks_of_long_texts_that_repeat(
    tmp_path: Path, sort_by: tuple[str, ...], in_a_row: bool
) -> None:
    """Each takes a few kB, and a hundredfold once it is read."""
    check(
        tmp_path,
        (rows(repeated(200, 4_000), first=200 * number * in_a_row) for number in range(100)),
        *sort_by,
    )


def test_a_few_heavy_blocks_among_many_light_ones(tmp_path: Path) -> None:
    """None of them is among those that are weighed first."""
    heavy = range(20, 30)
    check(
        tmp_path,
        (
            rows(repeated(300, 20_000 if number in heavy else 5), first=300 * number)
            for number in range(200)
        ),
        "k",
    )


def test_blocks_of_programs_that_record_nothing_about_their_pages(tmp_path: Path) -> None:
    check(tmp_path, (rows(repeated(3_000, 3_000)) for _ in range(6)), "k", written=older)
