"""A writer whose ``finish`` did not end well: called again it continues, and its rows count
once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import blockstore as bs
from blockstore.errors import BlockstoreError, Unanswered, Unavailable
from blockstore.format.marks import MarkReason
from blockstore.format.properties import UPLOAD_TIMEOUT_S
from blockstore.lifecycle.mark import place_deletion
from blockstore.names import deletion_mark_key, meta_key
from tests.blockstore.operations.lake import Lake, table_of
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally

A, B = ("a", 1, 0.1), ("b", 2, 0.2)
JOB = bs.Job("load", 1)


def failing(
    lake: Lake, fails: Callable[[Call], BlockstoreError | None], *, applied: bool
) -> FaultyBucket:
    """A bucket on which some calls raise, before or after they were applied."""
    faulty = FaultyBucket(lake.bucket)

    def fail(call: Call) -> None:
        error = fails(call)
        if error is not None:
            raise error

    (faulty.after if applied else faulty.before).append(fail)
    return faulty


class TestFinishAgain:
    @pytest.mark.parametrize("job", [None, JOB])
    def test_after_every_call_whose_answer_was_lost_for_good_the_rows_count_once(
        self, job: bs.Job | None
    ) -> None:
        """The store does not respond from call k on, until the writer is called again."""
        counting = FaultyBucket(Lake().bucket)
        with Lake().open(counting).writer(job=job) as writer:
            writer.write(table_of([A, B]))
        for number in range(1, len(counting.calls) + 1):
            for applied in (False, True):
                tally("crash points")
                self.rows_count_once(number, applied=applied, job=job)

    def rows_count_once(self, number: int, *, applied: bool, job: bs.Job | None) -> None:
        lake, point = Lake(), f"call {number}, applied: {applied}"
        silence = [True]

        def fails(call: Call) -> BlockstoreError | None:
            if not silence or call.number < number:
                return None
            return Unanswered("lost") if call.writes else Unavailable("lost")

        try:
            writer = lake.open(failing(lake, fails, applied=applied)).writer(job=job)
            writer.write(table_of([A, B]))
        except BlockstoreError:
            return  # nothing was taken in
        try:
            done = writer.finish()
        except (bs.Indeterminate, bs.Unavailable):
            silence.clear()
            try:
                done = writer.finish()
            except bs.Invalid:
                # Its rows were lost before they were chunks: they are written again.
                done = lake.append(A, B, job=job)
            assert done.published, point
        silence.clear()
        if not done.published:
            assert lake.open().append(table_of([]), resume=done.ulid).published
        assert lake.plain() == Counter([A, B]), point
        lake.world.clock.sleep(86_400)
        assert lake.rows(discovery="list").total() == 2, point

    def test_after_rows_were_lost_it_refuses(self) -> None:
        lake = Lake()
        table = lake.open(
            failing(
                lake,
                lambda call: Unavailable("down") if "chunks/" in call.key else None,
                applied=False,
            )
        )
        writer = table.writer()
        writer.write(table_of([A]))
        with pytest.raises(bs.Unavailable):
            writer.finish()
        with pytest.raises(bs.Invalid, match="refused or lost before"):
            writer.finish()

    def test_a_block_that_was_refused_in_between_is_not_called_lost(self) -> None:
        """A copy of its rows may be in the bucket by then: writing them again would store them
        twice."""
        lake = Lake()
        down = True
        faulty = failing(
            lake,
            lambda call: Unavailable("down") if down and call.method == "head" else None,
            applied=False,
        )
        writer = lake.open(faulty).writer()
        writer.write(table_of([A]))
        with pytest.raises(bs.Indeterminate) as first:
            writer.finish()
        ulid = first.value.ulid
        assert ulid is not None
        place_deletion(lake.bucket, lake.world, ulid, MarkReason.PARTIAL)
        for found in list(lake.bucket.list(f"{ulid}/")):
            if found.key not in (deletion_mark_key(ulid), meta_key(ulid)):
                lake.bucket.delete([found.key])
        down = False
        with pytest.raises(bs.Indeterminate) as second:
            writer.finish()
        assert second.value.ulid == ulid

    def test_finishing_twice_answers_the_same(self) -> None:
        lake = Lake()
        with lake.open().writer() as writer:
            writer.write(table_of([A]))
        assert writer.finish() == writer.finish() == writer.block
        assert lake.plain() == Counter([A])


class TestUploadTimeout:
    def test_a_write_of_more_than_a_day_goes_on_under_a_new_name_that_keeps_its_source(
        self,
    ) -> None:
        lake = Lake()
        with lake.open().writer() as writer:
            writer.write(table_of([A]))
            lake.world.clock.sleep(UPLOAD_TIMEOUT_S + 1)
            writer.write(table_of([B]))
        block = writer.block
        assert block is not None
        assert block.published
        (live,) = lake.open().log.state.blocks
        (source,) = live.meta.sources
        assert (live.ulid, live.meta.revision) == (block.ulid, 1)
        assert source < live.ulid
        assert lake.plain() == Counter([A, B])
        assert not list(lake.bucket.list(meta_key(source))), (
            "what began so long ago was never called complete"
        )

    def test_one_of_a_day_does_not(self) -> None:
        lake = Lake()
        with lake.open().writer() as writer:
            writer.write(table_of([A]))
            lake.world.clock.sleep(UPLOAD_TIMEOUT_S)
        (live,) = lake.open().log.state.blocks
        assert live.meta.sources == (live.ulid,)
