"""A block's values: checked when built."""

from __future__ import annotations

import pickle

import pytest

from blockstore.errors import Invalid
from blockstore.format.block import ChunkFile, StreamKey
from tests.blockstore.format.blocks import SHA, A, B, block, chunk, merged


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sources": ()}, "sources is empty"),
        ({"sources": (A, B)}, "level is 1 with 2 sources"),
        ({"sources": (B, A), "level": 2}, "not sorted"),
        ({"sources": (A, A), "level": 2}, "not sorted"),
        ({"sources": (B,)}, "expected the block itself"),
        ({"min_time": 10}, "min_time < max_time"),
        ({"files": (chunk(), chunk())}, "a path twice"),
        (
            {"files": (ChunkFile(path="../x.parquet", bytes=1, rows=2, sha256=SHA),)},
            "expected a path",
        ),
        (
            {"files": (ChunkFile(path="/etc/passwd", bytes=1, rows=2, sha256=SHA),)},
            "expected a path",
        ),
    ],
)
def test_a_block_that_breaks_an_invariant_cannot_be_built(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        block(**changes)
    assert A in str(caught.value)


def test_a_block_uploaded_again_keeps_the_source_of_the_refused_one() -> None:
    assert block(sources=(B,), revision=1).sources == (B,)


def test_the_stream_is_the_sorted_labels_and_the_resolution() -> None:
    assert block().stream == StreamKey((("cluster", "eu1"), ("zone", "b")), 0)


def test_chunks_are_the_files_that_hold_rows() -> None:
    sources = ChunkFile(path="sources.parquet", bytes=9, rows=2, sha256=SHA)
    assert merged(files=(chunk(), sources)).chunks == (chunk(),)


def test_a_block_crosses_processes() -> None:
    assert pickle.loads(pickle.dumps(merged())) == merged()
