"""The read-only half, and that a wrapper leaves nothing out."""

from __future__ import annotations

import inspect
from pathlib import Path

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.wrapper import ReadOnly, Wrapper
from blockstore.clock import SystemClock


def public(kind: type) -> set[str]:
    return {
        name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")
    }


def test_a_reader_holds_nothing_that_writes(tmp_path: Path) -> None:
    local = LocalBucket(tmp_path, SystemClock())
    etag = local.put("a/b", b"content")
    reader = ReadOnly(local)
    assert reader.url == local.url
    assert reader.get("a/b").etag == etag
    assert reader.get_range("a/b", 0, 3) == b"con"
    assert reader.head("a/b").size == 7
    assert [info.key for info in reader.list()] == ["a/b"]
    assert list(reader.prefixes()) == ["a/"]
    assert reader.path_of("a/b") == str(tmp_path / "a/b")
    assert abs(reader.now_ms() - local.now_ms()) < 5_000
    assert public(ReadOnly) == public(ReadBucket)
    assert not isinstance(reader, Bucket)


def test_a_wrapper_passes_on_every_request() -> None:
    """Also those that the interface implements: a wrapper without one would return the default for
    the store."""
    assert public(Bucket) <= set(vars(Wrapper))
    assert public(ReadBucket) <= set(vars(ReadOnly))
