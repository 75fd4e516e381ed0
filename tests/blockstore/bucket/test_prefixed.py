"""A part of a bucket as a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.clock import ManualClock
from blockstore.errors import Invalid
from blockstore.world import World


@pytest.fixture
def whole() -> Bucket:
    return MemoryBucket(ManualClock(), "memory://whole")


def test_only_what_is_below_the_prefix_is_seen(whole: Bucket) -> None:
    for key in ("a/b/c", "a/b-d", "a/bc/d", "a/b", "b/c"):
        whole.put(key, key.encode())
    part = Prefixed(whole, "a/b")
    assert [info.key for info in part.list()] == ["c"]
    assert part.get("c").data == b"a/b/c"
    part.put("d/e", b"")
    assert list(part.prefixes()) == ["d/"]
    assert whole.head("a/b/d/e").size == 0


def test_no_key_leads_out(whole: Bucket) -> None:
    whole.put("secret", b"")
    part = Prefixed(whole, "a")
    for key in ("../secret", "/secret", "..", ""):
        with pytest.raises(Invalid):
            part.get(key)
        with pytest.raises(Invalid):
            part.delete([key])
    with pytest.raises(Invalid):
        list(part.list("../"))


def test_the_url_goes_on_with_the_prefix(whole: Bucket, tmp_path: Path) -> None:
    assert Prefixed(whole, "/a/b/").url == "memory://whole/a/b"
    assert Prefixed(Prefixed(whole, "a"), "b").url == "memory://whole/a/b"
    local = open_bucket(f"{tmp_path}?durable=false", World.manual())
    part = Prefixed(local, "a")
    assert part.url == f"file://{tmp_path}/a?durable=false"
    assert part.path_of("b") == f"{tmp_path}/a/b"
    part.put("b", b"x")
    assert open_bucket(part.url, World.manual()).get("b").data == b"x"


def test_an_empty_prefix_is_refused(whole: Bucket) -> None:
    for prefix in ("", "/", "a//b", "../a"):
        with pytest.raises(Invalid):
            Prefixed(whole, prefix)
