"""DuckDB's errors become one sentence with the place."""

from __future__ import annotations

import pytest

from blockstore.errors import Invalid, NoMemory, NoSpace, Unavailable
from blockstore.reader.query.runners.failures import may_be_damage, translated
from blockstore.reader.query.runners.instance import Limits


@pytest.mark.parametrize(
    ("message", "kind", "says", "damage"),
    [
        (
            'Binder Error: Column "x" not found!\nCandidates: "a"\n\nLINE 2:   x\n          ^',
            Invalid,
            (
                'the SQL cannot be run: Binder Error: Column "x" not found! Candidates: "a", at '
                "line 2, column 3"
            ),
            False,
        ),
        (
            "Binder Error: x\n\nLINE 1: ...y FROM t\n        ^",
            Invalid,
            "Binder Error: x, at line 1",
            False,
        ),
        ("Invalid Input Error: boom", Invalid, "boom", True),
        ("IO Error: No files found", Invalid, "No files", True),
        ("Out of Memory Error: failed to pin", NoMemory, "more memory", False),
        (
            'IO Error: Could not write file "/tmp/x": No space left on device',
            NoSpace,
            "TMPDIR",
            False,
        ),
        ('IO Error: Could not write file "/tmp/x": Disk quota exceeded', NoSpace, "TMPDIR", False),
        ("Invalid Input Error: No space left on device", Invalid, "No space left", True),
        ("IO Error: No space left on device, says a row", Invalid, "says a row", True),
        ("INTERRUPT Error: Interrupted!", Unavailable, "canceled", False),
    ],
)
def test_a_failure_is_a_sentence(
    message: str, kind: type[Exception], says: str, damage: bool
) -> None:
    error = translated(RuntimeError(message))
    assert isinstance(error, kind)
    assert says in str(error)
    assert "\n" not in str(error)
    assert may_be_damage(RuntimeError(message)) is damage


_LIMITS = Limits(memory_bytes=1 << 30, spill_bytes=4 << 30)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            (
                "Out of Memory Error: failed to pin block (1.0 GiB/1.0 GiB used)\n\nPossible "
                "solutions:\n* Set x"
            ),
            (
                "the query exceeds its limit of 1,024 MiB of memory (Out of Memory Error: "
                "failed to "
                "pin block (1.0 GiB/1.0 GiB used)): select less, or raise memory in [query] (4,096 "
                "MiB for at_once = 4 queries)"
            ),
        ),
        (
            (
                "Out of Memory Error: failed to offload a block. This limit was set by the "
                "'max_temp_directory_size' setting."
            ),
            (
                "the query exceeds its limit of 4,096 MiB of temporary disk (Out of Memory Error: "
                "failed to offload a block): select less, or raise spill in [query] (16,384 MiB "
                "for "
                "at_once = 4 queries)"
            ),
        ),
    ],
)
def test_what_does_not_suffice_is_reported_with_its_limit_and_its_key(
    message: str, says: str
) -> None:
    error = translated(RuntimeError(message), limits=_LIMITS, shares=4)
    assert isinstance(error, NoMemory)
    assert str(error) == says


def test_a_message_with_many_spaces_takes_no_time_that_grows_with_their_square() -> None:
    spaces = " " * 300_000
    error = RuntimeError(f"it failed: '{spaces}x'{spaces}Possible solutions: none")
    assert str(translated(error)).endswith("it failed: ' x'")
