"""Scans and deletes find the texts that plain Python finds, whatever characters they end in."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.predicate import parse_filters
from blockstore.table import Table
from blockstore.world import World
from tests.support.examples import few
from tests.support.odd_texts import LEAVES, meets, odd_texts, written

SCHEMA = pa.schema([("s", pa.string()), ("raw", pa.binary())])


def table_of(*blocks: list[str | None]) -> Table:
    """A table with a block for each of these; ``raw`` is the text's bytes."""
    world = World.manual(seed=3)
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(SCHEMA, sort_by=["s"]))
    table = Table.open_bucket(bucket, world)
    for texts in blocks:
        raw = [None if text is None else text.encode() for text in texts]
        table.append(pa.table({"s": texts, "raw": raw}, schema=SCHEMA))
    return table


def texts_of(table: pa.Table) -> Counter[str | None]:
    return Counter(table["s"].to_pylist())


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def as_blob(text: str) -> str:
    return f"x'{text.encode().hex()}'"


LONG = "\ud7ff" * 62
"""Three bytes a character: pyarrow shows an expression with it cut within one."""


def test_a_condition_with_a_text_that_pyarrow_cuts_within_a_character() -> None:
    table = table_of([None, "\0" * 62], [LONG])
    table.delete(f"s NOT IN ('', {quoted(LONG)})")
    assert texts_of(table.snapshot().scan().to_table()) == Counter([None, LONG])
    found = table.snapshot().scan(where=pc.field("s") == LONG).to_table()
    assert texts_of(found) == Counter([LONG])
    for refused in (pc.field(0) == LONG, pc.field("nowhere") == LONG):
        with pytest.raises(Invalid, match="the expression"):
            table.snapshot().scan(where=refused).to_table()


blocks = st.lists(st.lists(st.none() | odd_texts(), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=few(150), deadline=None)
@given(blocks, st.sampled_from(LEAVES), st.data())
def test_a_condition_finds_and_deletes_what_plain_python_finds(
    held: list[list[str | None]], leaf: str, data: st.DataObject
) -> None:
    table = table_of(*held)
    stored = [text for block in held for text in block]
    near = [text for text in stored if text is not None]
    value = st.one_of(odd_texts(), *([st.sampled_from(near)] if near else []))
    values = [data.draw(value), data.draw(value)]
    expected = Counter(text for text in stored if meets(text, leaf, values))
    conditions = [
        written("s", leaf, list(map(quoted, values))),
        written("raw", leaf, list(map(as_blob, values))),
    ]
    snapshot = table.snapshot()
    for condition in conditions:
        assert texts_of(snapshot.scan(where=condition).to_table()) == expected
    table.delete(data.draw(st.sampled_from(conditions)))
    assert texts_of(table.snapshot().scan().to_table()) == Counter(stored) - expected


@pytest.mark.parametrize("text", ["ab\0\0", "\0", "\0ab", "a\0b"])
def test_a_text_with_nul_is_found_where_it_is_all_that_a_block_holds(text: str) -> None:
    table = table_of([text], ["ab"], [""])
    for where in (f"s = '{text}'", f"s <= '{text}' AND s >= '{text}'", f"s IN ('{text}', 'zz')"):
        assert texts_of(table.snapshot().scan(where=where).to_table()) == Counter([text])
    assert table.delete(f"s = '{text}'").rows_removed == 1


def test_a_value_that_is_a_numpy_scalar_keeps_its_nuls() -> None:
    for name, value in (("s", np.str_("ab\0")), ("raw", np.bytes_(b"ab\0"))):
        found = table_of(["ab\0"], ["ab"]).snapshot()
        predicate = parse_filters([(name, "=", value)], SCHEMA)
        assert texts_of(found.scan(where=predicate).to_table()) == Counter(["ab\0"])


def test_an_empty_text_is_no_null() -> None:
    snapshot = table_of(["", None], [None], [""]).snapshot()
    assert texts_of(snapshot.scan(where="s = ''").to_table()) == Counter(["", ""])
    assert texts_of(snapshot.scan(where="s IS NULL").to_table()) == Counter([None, None])
    assert texts_of(snapshot.scan(where="s < 'a'").to_table()) == Counter(["", ""])
