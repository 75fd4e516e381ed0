"""A tag and a collector at a table whose index is in leaves: their orders, as they are tried for
whole checkpoints (``tests/blockstore/index/test_tags.py``)."""

from __future__ import annotations

import os

import pytest

from blockstore.index.change import MoveToTree
from blockstore.names import LEAVES
from tests.blockstore.index.test_gc_crash import Filled, Run, fill
from tests.blockstore.index.test_tags import every_order
from tests.support.index_data import append, ulid

STRIDE = int(os.environ.get("BLOCKSTORE_TREE_STRIDE", "79"))
"""Each so many orders one is tried: a prime, so that they fall on all requests."""


@pytest.fixture
def in_leaves(small_leaves: None) -> Filled:
    return fill((MoveToTree(commit=ulid(902)), append(10, 11, 12)))


@pytest.mark.slow
def test_a_tag_and_a_collector_keep_the_version_or_say_that_it_expired(in_leaves: Filled) -> None:
    assert any(info.key.startswith(LEAVES) for info, _ in in_leaves.objects)
    counts = every_order(2, lambda: Run(filled=in_leaves), opens=True, stride=STRIDE)
    assert counts["kept"] > 500 // STRIDE
    assert counts["expired"] > 500 // STRIDE
