"""DuckDB's errors become one sentence with the place."""

from __future__ import annotations

import pytest

from blockstore.errors import Invalid, Unavailable
from reader.query.failures import may_be_damage, translated


@pytest.mark.parametrize(
    ("message", "kind", "says", "damage"),
    [
        (
            'Binder Error: Column "x" not found!\nCandidates: "a"\n\nLINE 2:   x\n          ^',
            Invalid,
            'the SQL cannot be answered: Binder Error: Column "x" not found! Candidates: "a", at line 2, column 3',
            False,
        ),
        ("Binder Error: x\n\nLINE 1: ...y FROM t\n        ^", Invalid, "Binder Error: x, at line 1", False),
        ("Invalid Input Error: boom", Invalid, "boom", True),
        ("IO Error: No files found", Invalid, "No files", True),
        ("Out of Memory Error: failed to pin", Unavailable, "more memory", False),
        ("INTERRUPT Error: Interrupted!", Unavailable, "canceled", False),
    ],
)
def test_a_failure_is_a_sentence(message: str, kind: type[Exception], says: str, damage: bool) -> None:
    error = translated(RuntimeError(message))
    assert isinstance(error, kind)
    assert says in str(error)
    assert "\n" not in str(error)
    assert may_be_damage(RuntimeError(message)) is damage
