from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockstore.lifecycle.remove import removal_order
from blockstore.names import DELETION_MARK, META, NO_COMPACT_MARK, SOURCES, chunk_path

ULID = "01JD0000000000000000000000"
PATHS = st.sets(
    st.sampled_from([META, DELETION_MARK, NO_COMPACT_MARK, SOURCES, "debris", *map(chunk_path, range(4))])
)


@given(PATHS)
def test_meta_goes_first_and_the_deletion_mark_last(paths: set[str]) -> None:
    """R7: a removal cut short leaves no block that looks complete, and a mark by which it is found again."""
    order = removal_order(ULID, paths)
    assert sorted(order) == sorted(f"{ULID}/{path}" for path in paths)
    if META in paths:
        assert order[0] == f"{ULID}/{META}"
    if DELETION_MARK in paths:
        assert order[-1] == f"{ULID}/{DELETION_MARK}"


def test_the_order_does_not_depend_on_the_listings() -> None:
    paths = [chunk_path(2), META, chunk_path(1), DELETION_MARK]
    assert removal_order(ULID, paths) == removal_order(ULID, reversed(paths))
