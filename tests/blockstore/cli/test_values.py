"""Words of the command line as values."""

from __future__ import annotations

import pytest

from blockstore.cli.failure import Usage
from blockstore.cli.values import job_of, listed, moment_ms, pairs
from blockstore.format.block import Job


def test_pairs_keep_what_follows_the_first_equals_sign() -> None:
    assert pairs(["a=1", "b=x=y", "c="], "--label") == {"a": "1", "b": "x=y", "c": ""}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(Usage, match="--label"):
            pairs(wrong, "--label")


def test_lists_are_split_and_trimmed() -> None:
    assert listed("a, b,,c ") == ("a", "b", "c")
    assert listed(None) == listed("") == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-02", 86_400_000),
        ("19700102", 86_400_000),
        ("1700000000123", 1_700_000_000_123),
    ],
)
def test_moments_are_utc_and_exact(text: str, value: int) -> None:
    assert moment_ms(text, "--as-of") == value


def test_what_is_no_moment_is_told() -> None:
    with pytest.raises(Usage, match="--as-of is 'yesterday'"):
        moment_ms("yesterday", "--as-of")


def test_an_app_and_a_batch_name_a_job_together() -> None:
    assert job_of(None, None) is None
    assert job_of("nightly", 0) == Job(app="nightly", batch=0)
    for app, batch in (("nightly", None), (None, 0)):
        with pytest.raises(Usage, match="give both or neither"):
            job_of(app, batch)
