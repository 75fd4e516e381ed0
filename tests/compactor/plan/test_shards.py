"""Shards: every stream belongs to exactly one, on every machine and in every release."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.compactor.plan.shards import Shard, parse_shard
from blockstore.errors import Invalid
from blockstore.format.block import StreamKey

labels = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)


@given(labels, st.integers(0, 10), st.integers(1, 9))
def test_a_stream_belongs_to_exactly_one_shard(
    found: dict[str, str], resolution: int, count: int
) -> None:
    stream = StreamKey(labels=tuple(sorted(found.items())), resolution=resolution)
    assert sum(Shard(number=number, count=count).owns(stream) for number in range(count)) == 1


def test_the_hash_is_the_same_in_every_process_and_release() -> None:
    streams = [StreamKey(labels=(("cluster", f"eu{n}"),), resolution=0) for n in range(8)]
    owner = [
        next(i for i in range(4) if Shard(number=i, count=4).owns(stream)) for stream in streams
    ]
    assert owner == [0, 1, 2, 1, 0, 3, 1, 1]


def test_a_shard_is_written_as_a_number_of_a_count() -> None:
    assert parse_shard(" 1/4 ") == Shard(number=1, count=4)
    assert parse_shard("1/4").role == "compactor/1"


@pytest.mark.parametrize("text", ["", "4", "a/b", "-1/4", "4/4", "0/0", "1/4/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="shard"):
        parse_shard(text)
