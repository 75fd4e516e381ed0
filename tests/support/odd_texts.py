"""Texts that trip up what compares, cuts or counts them, and what a condition on them means, in
plain Python.

Trailing NULs, which fixed-width exports are full of; characters of several code points and of four
bytes; the last code points, above which nothing is; and lengths around 64, at which statistics cut.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

__all__ = ["LEAVES", "meets", "odd_texts", "written"]

_CHARACTERS = [
    *(
        "\0",
        "a",
        "b",
        "é",
        "e\u0301",
        "\u00a0",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\U0001f600",
        "\U0010ffff",
    ),
    *"'%_\\",
]

_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
LEAVES = (*_COMPARISONS, "IN", "NOT IN", "BETWEEN", "NOT BETWEEN")
"""Each with two texts; a comparison takes the first of them."""


def odd_texts() -> st.SearchStrategy[str]:
    """Few beginnings and ends, so that some are equal, or equal up to their NULs."""
    character = st.sampled_from(_CHARACTERS)
    short = st.lists(st.sampled_from(["\0", "a", "b"]), max_size=3).map("".join)
    long = st.builds(
        lambda one, count, end: (one * count)[:count] + end,
        character,
        st.integers(62, 66),
        short,
    )
    padded = st.builds(
        lambda text, nuls: text + "\0" * nuls, short, st.sampled_from([1, 2, 8, 61, 64])
    )
    return st.one_of(short, padded, st.lists(character, max_size=4).map("".join), long)


def meets(text: str | None, leaf: str, values: Sequence[str]) -> bool:
    """Whether the condition is true for a text: code points order as their UTF-8 bytes do."""
    if text is None:
        return False
    if leaf in _COMPARISONS:
        return _COMPARISONS[leaf](text, values[0])
    inside = text in values if leaf.endswith("IN") else values[0] <= text <= values[1]
    return inside != leaf.startswith("NOT")


def written(column: str, leaf: str, values: Sequence[str]) -> str:
    """The condition in SQL, its values written as they are given."""
    if leaf in _COMPARISONS:
        return f"{column} {leaf} {values[0]}"
    if leaf.endswith("IN"):
        return f"{column} {leaf} ({', '.join(values)})"
    return f"{column} {leaf} {values[0]} AND {values[1]}"
