"""The probe reports what a store keeps, and finds each kind of store that breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blockstore.bucket import Bucket, Object, ObjectInfo, open_bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.probe import IF_MATCH, Finding, Result, probe, verdict
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    Invalid,
    ObjectMissing,
    Unanswered,
    Unavailable,
)
from blockstore.world import World

WORLD = World.real()
NAMES = [
    "read-after-write",
    "list-after-write",
    "create-if-absent",
    "if-match",
    "if-none-match GET",
    "LastModified in listings",
    "ordered listings",
    "unversioned bucket",
]


def by_name(findings: tuple[Finding, ...]) -> dict[str, Result]:
    return {finding.name: finding.result for finding in findings}


def test_a_folder_keeps_every_promise_and_nothing_is_left(tmp_path: Path) -> None:
    bucket = open_bucket(f"{tmp_path}/table", WORLD)
    bucket.put("mine", b"")
    assert by_name(probe(bucket, WORLD)) == dict.fromkeys(NAMES, Result.OK)
    assert [info.key for info in bucket.list()] == ["mine"]
    assert [path.name for path in (tmp_path / "table").iterdir()] == ["mine"]


def test_memory_keeps_every_promise_in_a_world_without_threads() -> None:
    world = World.manual()
    found = by_name(probe(MemoryBucket(world.clock), world))
    assert found == dict.fromkeys(NAMES, Result.OK) | {"unversioned bucket": Result.UNKNOWN}


@pytest.mark.s3
def test_the_real_server_keeps_all_but_the_order(s3_url: str) -> None:
    bucket = open_bucket(s3_url, WORLD)
    assert by_name(probe(bucket, WORLD)) == dict.fromkeys(NAMES, Result.OK) | {
        "ordered listings": Result.WARNING
    }
    assert list(bucket.list()) == []


class IgnoresConditions(Wrapper):
    """As several S3 servers do."""

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self.inner.put(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.inner.put(key, data)

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self.inner.get(key)


class LooksThenWrites(Wrapper):
    """Create-if-absent that is not atomic: right alone, wrong in a race."""

    def put_if_absent(self, key: str, data: bytes) -> str:
        if "/race/" in key and data != b"0":
            return self.inner.put(key, data)
        return self.inner.put_if_absent(key, data)


class RefusesButOverwrites(Wrapper):
    def put_if_absent(self, key: str, data: bytes) -> str:
        try:
            return self.inner.put_if_absent(key, data)
        except AlreadyExists:
            self.inner.put(key, data)
            raise


class QuotesEtags(Wrapper):
    """Refuses If-Match with the present ETag, as a store does that compares the quotes too."""

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.inner.put_if_match(key, data, f'"{etag}"')


class LacksConditions(Wrapper):
    def put_if_absent(self, key: str, data: bytes) -> str:
        raise Invalid("501 NotImplemented")

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        raise Invalid("501 NotImplemented")


class LosesAnswers(Wrapper):
    def put_if_absent(self, key: str, data: bytes) -> str:
        raise Unanswered("lost")


class ListsLate(Wrapper):
    """Shows a listing as it was at the call before."""

    def __init__(self, inner: Bucket) -> None:
        super().__init__(inner)
        self._shown: list[ObjectInfo] = []

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        late = [info for info in self._shown if info.key.startswith(prefix)]
        self._shown = [*self.inner.list()]
        return iter(late)


class ReadsLate(Wrapper):
    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        found = self.inner.get(key, if_none_match=if_none_match)
        return Object(data=b"0", etag=found.etag) if key.endswith("/read") else found


class OrdersByFolder(Wrapper):
    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        return iter(sorted(self.inner.list(prefix), key=lambda info: info.key.split("/")))


class KeepsVersions(Wrapper):
    def keeps_versions(self) -> bool | None:
        return True


class WrongClock(Wrapper):
    def now_ms(self) -> int:
        return self.inner.now_ms() + 3_600_000


class CannotList(Wrapper):
    def prefixes(self, prefix: str = "") -> Iterator[str]:
        raise AccessDenied("no")

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        if prefix.endswith("order/"):
            raise Unavailable("no answer")
        return self.inner.list(prefix)


@pytest.mark.parametrize(
    ("store", "found"),
    [
        (
            IgnoresConditions,
            {
                "create-if-absent": Result.FAILED,
                "if-match": Result.FAILED,
                "if-none-match GET": Result.WARNING,
            },
        ),
        (LooksThenWrites, {"create-if-absent": Result.FAILED}),
        (RefusesButOverwrites, {"create-if-absent": Result.FAILED}),
        (QuotesEtags, {"if-match": Result.FAILED}),
        (LacksConditions, {"create-if-absent": Result.FAILED, "if-match": Result.FAILED}),
        (LosesAnswers, {"create-if-absent": Result.UNKNOWN, "if-match": Result.UNKNOWN}),
        (ReadsLate, {"read-after-write": Result.FAILED}),
        (OrdersByFolder, {"ordered listings": Result.WARNING}),
        (KeepsVersions, {"unversioned bucket": Result.WARNING}),
        (WrongClock, {"LastModified in listings": Result.FAILED}),
        (CannotList, {"ordered listings": Result.UNKNOWN}),
    ],
)
def test_a_store_that_breaks_a_promise_is_found(
    store: Callable[[Bucket], Bucket], found: dict[str, Result]
) -> None:
    memory = MemoryBucket(WORLD.clock)
    expected = dict.fromkeys(NAMES, Result.OK) | {"unversioned bucket": Result.UNKNOWN} | found
    findings = probe(store(memory), WORLD)
    assert by_name(findings) == expected
    assert all(finding.detail and finding.consequence for finding in findings)
    assert list(memory.list()) == []


@pytest.mark.parametrize(
    ("store", "sentence"),
    [
        (lambda bucket: bucket, "with and without an index work here"),
        (IgnoresConditions, "Only tables without an index"),
        (QuotesEtags, "degraded mode"),
        (LosesAnswers, "could not be measured"),
        (WrongClock, "with the restrictions named above"),
        (OrdersByFolder, "with and without an index work here"),
    ],
)
def test_the_verdict_says_which_tables_work(
    store: Callable[[Bucket], Bucket], sentence: str
) -> None:
    assert sentence in verdict(probe(store(MemoryBucket(WORLD.clock)), WORLD))


def test_late_listings_are_found() -> None:
    assert (
        by_name(probe(ListsLate(MemoryBucket(WORLD.clock)), WORLD))["list-after-write"]
        is Result.FAILED
    )


def test_a_store_that_takes_no_write_at_all_is_an_error() -> None:
    class ReadsOnly(Wrapper):
        def put(self, key: str, data: bytes) -> str:
            raise AccessDenied("no right to write")

    with pytest.raises(AccessDenied, match="no right to write"):
        probe(ReadsOnly(MemoryBucket(WORLD.clock)), WORLD)


def test_what_was_written_goes_also_when_the_probe_fails_midway() -> None:
    class Dies(Wrapper):
        def put_if_absent(self, key: str, data: bytes) -> str:
            raise KeyboardInterrupt

    memory = MemoryBucket(WORLD.clock)
    with pytest.raises(KeyboardInterrupt):
        probe(Dies(memory), World.manual())
    assert list(memory.list()) == []
    with pytest.raises(ObjectMissing):
        memory.get("_probe")


def test_one_promise_alone_is_measured_and_leaves_nothing() -> None:
    bucket = MemoryBucket(WORLD.clock)
    for store, found in ((bucket, Result.OK), (IgnoresConditions(bucket), Result.FAILED)):
        (finding,) = probe(store, WORLD, only=IF_MATCH)
        assert (finding.name, finding.result) == (IF_MATCH, found)
    assert not list(bucket.list())
