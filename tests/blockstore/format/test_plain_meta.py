"""The quick way to read a meta says what the careful one says, or nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from blockstore.errors import Corrupt
from blockstore.format import meta as careful
from blockstore.format.block import BlockKind, BlockMeta, ColumnStats, Job, SegmentsFile
from blockstore.format.meta import encode, from_dict, plain_meta, to_dict
from tests.blockstore.format.blocks import SHA, A, B, block, chunk, merged

METAS = [
    block(),
    merged(),
    block(labels={}, job=None, revision=1, sources=(B,)),
    block(time_column=None, sort_by=(), schema_id=7),
    block(segments=SegmentsFile(bytes=9, sha256=SHA), files=(replace(chunk(), footer=40),)),
    block(rows=0, files=()),
    merged(kind=BlockKind.HISTORY),
]
ODD: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1,
    0.5, 1e300, "", "x", "x" * 300, "x" * 2_000, A, B, SHA, SHA.upper(), "age", "index", "history",
    "changes", "plain", "chunks/000002.parquet",
    f"chunks/{'a' * 300}.parquet", "sources.parquet", "meta.json",
    [], {}, [1], ["t"], [None], {"a": 1}, {"a": "b"}, {"_source": "x"},
]  # fmt: skip
RICH = [
    merged(
        rows=4,
        schema_id=7,
        job=Job(app="nightly", batch=17),
        segments=SegmentsFile(bytes=9, sha256=SHA),
        files=(replace(block().files[0], footer=40), chunk(2, t=ColumnStats(1, 2, 1))),
    ),
    merged(kind=BlockKind.HISTORY, labels={}, files=(chunk(),), job=None, time_column=None),
]


def carefully(value: Any) -> BlockMeta | None:
    """What is read field by field; None where that is Corrupt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(careful, "plain_meta", lambda *_, **__: None)
        try:
            return from_dict(value, sources=(A, B))
        except Corrupt:
            return None


def quickly(value: Any) -> BlockMeta | None:
    return plain_meta(value, sources=(A, B), schema=b"")


@pytest.mark.parametrize("meta", METAS)
def test_what_this_release_writes_is_plain(meta: BlockMeta) -> None:
    value = orjson.loads(orjson.dumps(to_dict(meta)))
    assert plain_meta(value, sources=meta.sources, schema=meta.schema) == meta
    alone = orjson.loads(encode(meta))
    found = plain_meta(alone, sources=meta.sources, schema=meta.schema)
    assert found == replace(meta, schema_id=0)


def _changed(value: Any) -> Iterator[None]:
    """Change one thing of an object or a list, at any depth, one after the other."""
    for key in list(value) if isinstance(value, dict) else list(range(len(value))):
        was = value[key]
        if isinstance(was, (dict, list)):
            yield from _changed(was)
        for odd in ODD:
            value[key] = copy.deepcopy(odd)
            yield
        value[key] = was
    if isinstance(value, list):
        for again in value[:1]:
            value.append(again)
            yield
            value.pop()
        return
    for name in ["new", "rows", "nans", "footer", "sources", "check"]:
        if name not in value:
            for odd in ODD:
                value[name] = copy.deepcopy(odd)
                yield
            del value[name]
    for name in list(value):
        was = value.pop(name)
        yield
        value[name] = was


@pytest.mark.parametrize("meta", RICH)
def test_whatever_is_changed_it_says_what_is_read_field_by_field_or_nothing(
    meta: BlockMeta,
) -> None:
    value = orjson.loads(orjson.dumps(to_dict(meta)))
    plain = tried = 0
    for _ in _changed(value):
        found = quickly(value)
        assert found is None or found == carefully(value), value
        plain += found is not None
        tried += 1
    assert tried > 2_000
    assert plain > 100, "some of the changes are plain too"
