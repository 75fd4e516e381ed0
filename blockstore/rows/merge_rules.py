"""What a merge refuses, in one process and on Spark alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blockstore.errors import Invalid, RowConflict
from blockstore.format.casting import other_case
from blockstore.format.value_text import row_text

KEY_EXISTS = "name the key in on, and no other column, so that these rows are matched"
"""What helps where a row to insert has the key of one that ``on`` did not match."""


def refuse_other_case(given: Iterable[str], wanted: Sequence[str]) -> None:
    """Raise Invalid where all columns of the source are taken, and some have the name of a column
    in another case."""
    remedy = other_case(given, wanted)
    if remedy:
        raise Invalid(
            "the merge takes all columns of the source, of which some are written in another case: "
            f"{remedy}"
        )


def key_exists(columns: Sequence[str], key: tuple[object, ...]) -> RowConflict:
    """The error for a row to insert whose key exists."""
    return RowConflict(
        f"a row with the key ({', '.join(columns)}) {row_text(key)} exists already, and an insert "
        f"brings new ones: {KEY_EXISTS}",
        rows=[(key[0] if len(key) == 1 else key, None, None)],
    )


def key_moved(columns: Sequence[str], key: tuple[object, ...]) -> Invalid:
    """The error for a matched row that would get another key."""
    return Invalid(
        f"the merge gives the row with the key ({', '.join(columns)}) {row_text(key)} another key: "
        "delete the row, and insert one with the new key"
    )
