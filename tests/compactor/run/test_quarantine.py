"""Blocks that wait for a person: found by cleaning and by merging, each with the right command
line."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.run.quarantine import DamageMarks, found_by_cleaning
from blockstore.errors import Unavailable
from blockstore.format.marks import NoCompactMark, NoCompactReason, encode_mark
from blockstore.ids import ulid_at
from blockstore.names import no_compact_mark_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

URL = "s3://lake/a"
A, B, C = (ulid_at(1_700_000_000_000 + number) for number in range(3))


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket(World.manual().clock)


def mark(
    bucket: MemoryBucket,
    ulid: str,
    reason: NoCompactReason = NoCompactReason.MALFORMED,
    details: str = "",
) -> None:
    found = NoCompactMark(ulid=ulid, no_compact_time_s=1, reason=reason, details=details)
    bucket.put(no_compact_mark_key(ulid), encode_mark(found))


def repair(ulid: str) -> str:
    return f"blockstore repair {URL} --block {ulid}"


def test_what_cleaning_found_is_repaired_and_what_the_index_refused_is_adopted() -> None:
    cleaned = CleaningReport(
        url=URL, quarantined={A: "torn", B: "came too late"}, refused=frozenset({B, C})
    )
    assert found_by_cleaning(cleaned, URL) == {
        A: ("torn", repair(A)),
        B: ("came too late", f"blockstore repair {URL} --adopt {B}"),
    }


def test_only_marks_of_damaged_blocks_need_a_person(bucket: MemoryBucket) -> None:
    mark(bucket, A, details="no Parquet")
    mark(bucket, B, NoCompactReason.MANUAL, "mine")
    mark(bucket, C, NoCompactReason.SIZE, "large")
    assert DamageMarks(bucket).look([A, B, C], {}, URL) == {A: ("no Parquet", repair(A))}


def test_a_mark_without_details_has_a_reason_all_the_same(bucket: MemoryBucket) -> None:
    mark(bucket, A)
    assert DamageMarks(bucket).look([A], {}, URL) == {A: ("a merge found it damaged", repair(A))}


def test_what_was_found_of_late_counts_without_a_mark_and_the_mark_s_own_words_go_before(
    bucket: MemoryBucket,
) -> None:
    mark(bucket, A, details="said by the mark")
    mark(bucket, B, NoCompactReason.MANUAL)
    late = {A: "said of late", B: "torn", C: "gone"}
    assert DamageMarks(bucket).look([A, B], late, URL) == {
        A: ("said by the mark", repair(A)),
        B: ("torn", repair(B)),
        C: ("gone", repair(C)),
    }


def test_each_mark_is_read_once(bucket: MemoryBucket) -> None:
    metered = Metered(bucket)
    mark(bucket, A)
    mark(bucket, B, NoCompactReason.MANUAL)
    marked = DamageMarks(metered)
    for _ in range(3):
        assert set(marked.look({A, B}, {}, URL)) == {A}
    assert metered.counts["get"] == 2
    mark(bucket, C)
    assert set(marked.look({A, B, C}, {}, URL)) == {A, C}
    assert metered.counts["get"] == 3


def test_a_mark_that_is_withdrawn_is_forgotten_and_one_that_comes_back_is_read_again(
    bucket: MemoryBucket,
) -> None:
    marked = DamageMarks(bucket)
    mark(bucket, A, details="torn")
    assert set(marked.look([A], {}, URL)) == {A}
    assert marked.look([], {}, URL) == {}
    mark(bucket, A, NoCompactReason.MANUAL)
    assert marked.look([A], {}, URL) == {}


def test_what_was_found_of_late_is_forgotten_once_its_mark_is_taken_away(
    bucket: MemoryBucket,
) -> None:
    """Also where a listing shows the damage, so that the block is no candidate and its mark is
    asked for by name."""
    marked, late = (
        DamageMarks(bucket),
        {A: "torn", B: "a chunk is missing", C: "nothing is left of it"},
    )
    mark(bucket, A)
    mark(bucket, B)
    assert set(marked.look([A], late, URL)) == {A, B, C}
    for ulid in (A, B):
        bucket.delete([no_compact_mark_key(ulid)])
    assert set(marked.look([], late, URL)) == {C}
    mark(bucket, A)
    assert set(marked.look([A], late, URL)) == {A, C}
    assert set(marked.look([], {}, URL)) == set()


def test_a_url_with_blanks_stays_one_word_of_the_command(bucket: MemoryBucket) -> None:
    mark(bucket, A)
    ((_, command),) = DamageMarks(bucket).look([A], {}, "/srv/my lake/t").values()
    assert command == f"blockstore repair '/srv/my lake/t' --block {A}"


def test_a_mark_that_is_listed_and_not_there_yet_is_looked_for_again(bucket: MemoryBucket) -> None:
    marked = DamageMarks(bucket)
    assert marked.look([A], {}, URL) == {}
    mark(bucket, A, details="torn")
    assert marked.look([A], {}, URL) == {A: ("torn", repair(A))}


@pytest.mark.parametrize(
    "data", [b"{ not json", b'{"version": 99}', encode_mark(NoCompactMark(
        ulid=B, no_compact_time_s=1, reason=NoCompactReason.MANUAL))],
    ids=["garbled", "newer", "another block's"],
)  # fmt: skip
def test_a_mark_that_cannot_be_read_needs_a_person_and_hides_no_other(
    bucket: MemoryBucket, data: bytes
) -> None:
    bucket.put(no_compact_mark_key(A), data)
    mark(bucket, C, details="torn")
    found = DamageMarks(bucket).look([A, C], {}, URL)
    assert found[C] == ("torn", repair(C))
    reason, command = found[A]
    assert reason.startswith("its mark cannot be read: ")
    assert command == f"blockstore mark {URL} {A} --no-compact --remove"


def test_a_store_that_does_not_respond_is_not_a_mark_and_what_was_read_before_is_kept(
    bucket: MemoryBucket,
) -> None:
    for ulid in (A, B, C):
        mark(bucket, ulid)
    faulty, down = FaultyBucket(bucket), True

    def fail(call: Call) -> None:
        if down and B in call.key:
            raise Unavailable("no answer")

    faulty.before.append(fail)
    marked = DamageMarks(faulty)
    with pytest.raises(Unavailable):
        marked.look([A, B, C], {}, URL)
    down = False
    assert set(marked.look([A, B, C], {}, URL)) == {A, B, C}
    assert [call.key for call in faulty.calls].count(no_compact_mark_key(A)) == 1
