"""Which keys a bucket accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.bucket.keys import check_key, check_prefix, content_etag, skippable
from blockstore.errors import Invalid

PARTS = st.text(st.sampled_from("ab.-é\\ :"), min_size=1, max_size=4)


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_a_key_is_accepted_exactly_if_no_part_is_a_dot_or_two(parts: list[str]) -> None:
    key = "/".join(parts)
    if {".", ".."} & set(parts):
        with pytest.raises(Invalid, match="the object key"):
            check_key(key)
    else:
        assert check_key(key) == key


@given(
    st.lists(PARTS.filter(lambda part: part not in {".", ".."}), min_size=1, max_size=4),
    st.integers(0, 20),
)
def test_every_beginning_of_a_key_is_a_prefix(parts: list[str], length: int) -> None:
    prefix = "/".join(parts)[:length]
    if not any(part in {".", ".."} for part in prefix.split("/")[:-1]):
        assert check_prefix(prefix) == prefix


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/..",
        "../a",
        "a/../b",
        "./a",
        "a/./b",
        "a\0b",
        "\ud800",
    ],
)
def test_a_key_that_leads_elsewhere_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="key"):
        check_key(key)


@pytest.mark.parametrize("prefix", ["/", "/a", "../", "a/../", "a/../b", "a//b"])
def test_a_prefix_that_leads_elsewhere_is_refused(prefix: str) -> None:
    with pytest.raises(Invalid, match="key"):
        check_prefix(prefix)


@pytest.mark.parametrize("key", ["a" * 1025, "é" * 513, "a/" * 600 + "b"])
def test_a_key_of_more_than_1024_bytes_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="at most 1024"):
        check_key(key)


def test_a_key_of_1024_bytes_is_accepted() -> None:
    assert check_key("é" * 512)


def test_a_key_that_utf8_cannot_write_is_refused() -> None:
    with pytest.raises(Invalid, match="UTF-8"):
        check_key("a\udcffb")


def test_the_same_content_has_the_same_etag_for_ever() -> None:
    assert content_etag(b"content") == "ed7002b439e9ac845f22357d822bac14"
    assert (
        content_etag(memoryview(b"content"))
        == content_etag(b"content")
        != content_etag(b"contents")
    )


@pytest.mark.parametrize(
    ("prefix", "start_after", "skipped"),
    [
        ("", "", ""),
        ("index/", "index/00000000000000000042.json", "index/0000000000000000004"),
        ("my-lake/t.x/index/", "my-lake/t.x/index/0042.json", "my-lake/t.x/index/004"),
        ("index/", "a", ""),
        ("", "a/b", "a/"),
        ("", "b/-", "b/"),
        ("ab", "ab-", ""),
        ("", "a", ""),
    ],
)
def test_what_the_store_may_skip_is_safe_in_both_orders(
    prefix: str, start_after: str, skipped: str
) -> None:
    assert skippable(prefix, start_after) == skipped
