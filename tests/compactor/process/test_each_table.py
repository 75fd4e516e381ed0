"""The same call for every table under a URL: each failure is reported, and none stops another."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.api import Object, ObjectInfo
from blockstore.bucket.wrapper import Wrapper
from blockstore.compactor.process import lake
from blockstore.compactor.process.lake import LakeResults, each_table
from blockstore.errors import AccessDenied, BlockstoreError, Corrupt, NoSpace, NotFound, Unavailable
from blockstore.names import BOUNDARY
from blockstore.table import Table
from blockstore.world import World

SCHEMA = pa.schema([("row", pa.int64())])


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A lake of three tables, one of them without an index, and a folder that is none."""
    found = f"memory://{request.node.name.translate(str.maketrans('[]', '--'))}/lake"
    for name in ("a", "b", "c"):
        table = bs.create(f"{found}/{name}", schema=SCHEMA, sort_by=["row"], index=name != "b")
        table.append(pa.table({"row": [1, 2]}, schema=SCHEMA))
    bucket = open_bucket(found, World.real())
    bucket.put("notes/file.txt", b"mine")
    yield found
    bucket.delete([info.key for info in bucket.list()])


def place(url: str) -> Bucket:
    return open_bucket(url, World.real())


def indexed(name: str, table: Table) -> bool:
    assert table.url.endswith(f"/{name}")
    return table.indexed


def errors(done: LakeResults[bool]) -> dict[str, str]:
    return {one.name: type(one.error).__name__ for one in done.tables if one.error is not None}


def results(done: LakeResults[bool]) -> dict[str, bool | None]:
    return {one.name: one.result for one in done.tables if one.error is None}


def test_every_table_is_acted_on_by_name_with_an_index_or_without(url: str) -> None:
    done = each_table(url, indexed)
    assert done.lake
    assert [one.name for one in done.tables] == ["a", "b", "c"]
    assert results(done) == {"a": True, "b": False, "c": True}
    assert errors(done) == {}


def test_a_table_itself_is_acted_on_alone(url: str) -> None:
    done = each_table(f"{url}/a", indexed)
    assert not done.lake
    assert results(done) == {"a": True}


def test_a_table_that_is_to_be_left_is_not_even_opened(url: str) -> None:
    place(f"{url}/a").delete([BOUNDARY])
    assert results(each_table(url, indexed, leave=lambda name: name == "a")) == {
        "b": False,
        "c": True,
    }
    assert each_table(f"{url}/c", indexed, leave=lambda name: name == "c").tables == ()


def test_a_place_without_any_table_is_not_found(url: str) -> None:
    with pytest.raises(NotFound, match="notes"):
        each_table(f"{url}/notes", indexed)


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("no answer"),
        Corrupt("torn"),
        OSError(errno.ENOSPC, "No space left"),
        MemoryError("1 GiB"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_fails_on_one_table_is_reported_and_the_others_are_done(
    url: str, error: Exception
) -> None:
    def act(name: str, table: Table) -> bool:
        if name == "a":
            raise error
        return indexed(name, table)

    done = each_table(url, act)
    assert [one.error for one in done.tables if one.name == "a"] == [error]
    assert results(done) == {"b": False, "c": True}


def test_two_that_fail_are_both_reported(url: str) -> None:
    def act(name: str, table: Table) -> bool:
        raise NoSpace("full") if name == "c" else Unavailable("no answer")

    assert errors(each_table(url, act)) == {"a": "Unavailable", "b": "Unavailable", "c": "NoSpace"}


def test_a_bug_on_one_table_is_reported_and_the_others_are_done(url: str) -> None:
    def act(name: str, table: Table) -> bool:
        if name == "a":
            raise ArithmeticError("a bug")
        return indexed(name, table)

    done = each_table(url, act)
    assert errors(done) == {"a": "ArithmeticError"}
    assert results(done) == {"b": False, "c": True}


@pytest.mark.parametrize("error", [Unavailable("no answer"), OSError(errno.EIO, "broken")])
def test_a_single_table_s_error_is_raised_as_it_is(url: str, error: Exception) -> None:
    def act(name: str, table: Table) -> bool:
        raise error

    with pytest.raises(type(error)) as raised:
        each_table(f"{url}/a", act)
    assert raised.value is error


def test_a_table_that_vanishes_meanwhile_is_reported_and_the_others_are_done(url: str) -> None:
    def act(name: str, table: Table) -> bool:
        gone = place(f"{url}/c")
        gone.delete([info.key for info in gone.list()])
        return indexed(name, table)

    done = each_table(url, act)
    assert errors(done) == {"c": "NotFound"}
    assert results(done) == {"a": True, "b": False}


@pytest.mark.parametrize("boundary", [None, b"garbage"], ids=["lost", "garbled"])
def test_a_table_whose_boundary_is_damaged_is_reported_and_the_others_are_done(
    url: str, boundary: bytes | None
) -> None:
    if boundary is None:
        place(f"{url}/a").delete([BOUNDARY])
    else:
        place(f"{url}/a").put(BOUNDARY, boundary)
    done = each_table(url, indexed)
    assert errors(done) == {"a": "BoundaryLost"}
    assert results(done) == {"b": False, "c": True}


class Denying(Wrapper):
    """A bucket one of whose folders may be listed and not be read, such as another system's."""

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self._look(key)
        return self.inner.get(key, if_none_match=if_none_match)

    def head(self, key: str) -> ObjectInfo:
        self._look(key)
        return self.inner.head(key)

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        self._look(prefix)
        return self.inner.prefixes(prefix)

    def _look(self, key: str) -> None:
        if key.startswith("notes/"):
            raise AccessDenied("notes: permission denied")


def test_a_folder_that_may_not_be_read_is_reported_and_the_tables_are_done(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "open_bucket", lambda url, world: Denying(open_bucket(url, world)))
    done = each_table(url, indexed)
    assert errors(done) == {"notes": "AccessDenied"}
    assert results(done) == {"a": True, "b": False, "c": True}
    assert errors(each_table(url, indexed, leave=lambda name: name == "notes")) == {}


def test_a_store_that_does_not_respond_is_not_a_lake_without_tables(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Down(Wrapper):
        def prefixes(self, prefix: str = "") -> Iterator[str]:
            raise Unavailable("no answer")

    monkeypatch.setattr(lake, "open_bucket", lambda url, world: Down(open_bucket(url, world)))
    with pytest.raises(BlockstoreError, match="no answer"):
        each_table(url, indexed)
