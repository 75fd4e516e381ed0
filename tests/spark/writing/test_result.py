"""What a write did, said in one line; what it left undone is a warning."""

from __future__ import annotations

import logging

import pytest

from blockstore.spark.writing.result import Written

SPENT = {"plan": 0.25, "tasks": 61.0, "commit": 0.5}


@pytest.mark.parametrize(
    ("written", "level", "said"),
    [
        (
            Written(
                url="u",
                ulid="B",
                version=7,
                published=True,
                rows=1_000,
                bytes=2_048,
                chunks=2,
                seconds=SPENT,
            ),
            "INFO",
            (
                "u: append, block B, version 7, 1,000 rows in 2 chunks of 2,048 bytes; plan 0.2 s, "
                "tasks 61.0 s, commit 0.5 s"
            ),
        ),
        (Written(url="u", ulid="B", rows=1), "INFO", "not published yet"),
        (
            Written(url="u", operation="overwrite", version=3, removed=("A",), rows_removed=None),
            "INFO",
            "replacing an unknown number of rows (1 blocks removed, 0 rewritten)",
        ),
        (
            Written(url="u", ulid="B", version=2, already=True),
            "WARNING",
            "was committed before (block B, version 2)",
        ),
        (Written(url="u", ignored=True), "WARNING", "if_exists='ignore'"),
        (Written(url="u"), "WARNING", "has no rows"),
    ],
    ids=["append", "unpublished", "overwrite", "already", "ignored", "empty"],
)
def test_a_write_says_what_became_of_it(
    written: Written, level: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="blockstore.spark"):
        assert written.log() is written
    (record,) = caplog.records
    assert record.levelname == level
    assert said in record.getMessage()
