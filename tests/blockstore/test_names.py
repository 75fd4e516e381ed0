from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore import names
from blockstore.ids import MAX_ULID, MIN_ULID

ULID = "01JD0000000000000000000000"


@given(st.integers(min_value=0, max_value=10**20 - 1))
def test_entry_and_checkpoint_keys_parse_back(number: int) -> None:
    assert names.parse_entry(names.entry_key(number)) == number
    assert names.parse_checkpoint(names.checkpoint_key(number)) == number


@given(st.integers(min_value=0, max_value=10**20 - 2))
def test_entry_keys_sort_as_their_numbers(number: int) -> None:
    assert names.entry_key(number) < names.entry_key(number + 1)


@pytest.mark.parametrize(
    "key",
    [
        "index/1.json",
        "index/0000000000000000001.json",
        "index/000000000000000000001.json",
        "index/0000000000000000000a.json",
        "index/٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١.json",
        "index/00000000000000000001.json\n",
        "index/00000000000000000001.json.tmp",
        "x/index/00000000000000000001.json",
        "index/checkpoints/00000000000000000001.json",
        "",
    ],
)
def test_a_strange_entry_name_is_unknown_and_not_guessed(key: str) -> None:
    assert names.parse_entry(key) is None


@pytest.mark.parametrize(
    ("text", "valid"),
    [(ULID, True), (MIN_ULID, True), (MAX_ULID, True), (ULID.lower(), False),
     ("8" + ULID[1:], False),
     (ULID[:-1], False), (ULID + "0", False), (ULID[:-1] + "I", False), (ULID[:-1] + "U", False),
     (ULID + "\n", False)],
)  # fmt: skip
def test_a_ulid_is_canonical_or_none(text: str, valid: bool) -> None:
    assert names.is_ulid(text) is valid


def test_keys_of_a_block_split_into_ulid_and_path() -> None:
    assert names.split_block_key(names.meta_key(ULID)) == (ULID, "meta.json")
    assert names.split_block_key(names.object_key(ULID, names.chunk_path(1))) == (
        ULID,
        "chunks/000001.parquet",
    )
    for strange in (ULID, f"{ULID}/", "index/hint.json", f"x{ULID}/meta.json"):
        assert names.split_block_key(strange) is None


@pytest.mark.parametrize(
    ("path", "valid"),
    [("chunks/000001.parquet", True), ("chunks/0f-000001.parquet", True),
     ("chunks/../meta.parquet", False),
     ("/chunks/000001.parquet", False), ("chunks/a/b.parquet", False), ("chunks/.parquet", False),
     ("chunks/000001.parquet\n", False), ("sources.parquet", False)],
)  # fmt: skip
def test_a_chunk_lies_in_its_blocks_chunks_folder(path: str, valid: bool) -> None:
    assert names.is_chunk_path(path) is valid


def test_two_attempts_at_one_chunk_have_two_names() -> None:
    assert names.chunk_path(1, "aa") != names.chunk_path(1, "bb")
    assert names.is_chunk_path(names.chunk_path(1, "0123456789abcdef"))


def test_the_hashes_of_segments_are_named_by_their_own_hash() -> None:
    path = names.segments_path("0123456789abcdef" * 4)
    assert path == "segments-0123456789abcdef"
    assert not names.is_chunk_path(path)
    assert names.split_block_key(names.object_key(ULID, path)) == (ULID, path)
