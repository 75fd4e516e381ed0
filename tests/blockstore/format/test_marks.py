"""Marks: the same after their bytes, in Thanos's seconds; never guessed."""

from __future__ import annotations

import json

import pytest

from blockstore.errors import Corrupt, NewerFormat
from blockstore.format.marks import (
    DeletionMark,
    MarkReason,
    NoCompactMark,
    NoCompactReason,
    decode_deletion_mark,
    decode_no_compact_mark,
    encode_mark,
)
from tests.blockstore.format.blocks import A, B

DELETION = DeletionMark(
    ulid=A,
    deletion_time_s=1_700_007_300,
    reason=MarkReason.SUPERSEDED,
    details="merged",
    superseded_by=B,
)
NO_COMPACT = NoCompactMark(ulid=A, no_compact_time_s=1_700_007_300, reason=NoCompactReason.SIZE)


def test_marks_are_the_same_after_their_bytes() -> None:
    plain = DeletionMark(ulid=A, deletion_time_s=1, reason=MarkReason.PARTIAL)
    assert decode_deletion_mark(encode_mark(DELETION), ulid=A) == DELETION
    assert decode_deletion_mark(encode_mark(plain), ulid=A) == plain
    assert decode_no_compact_mark(encode_mark(NO_COMPACT), ulid=A) == NO_COMPACT


def test_marks_have_the_names_of_the_format() -> None:
    assert json.loads(encode_mark(DELETION)) == {
        "version": 1,
        "id": A,
        "deletion_time": 1_700_007_300,
        "reason": "superseded",
        "details": "merged",
        "superseded_by": B,
    }
    assert json.loads(encode_mark(NO_COMPACT)) == {
        "version": 1,
        "id": A,
        "no_compact_time": 1_700_007_300,
        "reason": "size",
        "details": "",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"id": B},
        {"id": 1},
        {"reason": "boredom"},
        {"deletion_time": "now"},
        {"version": "1"},
        {"superseded_by": "x"},
    ],
)
def test_a_damaged_mark_is_corrupt_and_named(changes: dict[str, object]) -> None:
    data = json.dumps(json.loads(encode_mark(DELETION)) | changes).encode()
    with pytest.raises(Corrupt, match=f"{A}/deletion-mark.json"):
        decode_deletion_mark(data, ulid=A)


def test_a_truncated_mark_is_corrupt_and_a_newer_one_newer() -> None:
    with pytest.raises(Corrupt, match=f"{A}/no-compact-mark.json"):
        decode_no_compact_mark(encode_mark(NO_COMPACT)[:-1], ulid=A)
    with pytest.raises(NewerFormat):
        decode_no_compact_mark(b'{"version": 9}', ulid=A)
