"""What is listed of an index, and the looks with which a cold read begins (protocol 3.5).

Rules:
- The first looks are sent at once: one page of everything below ``index/``, the hint, the boundary.
  Whichever of them the store answers first, nothing is accepted by this look at the boundary: it
  only says where to begin. What accepts is the boundary that is requested after the listing, or
  read after the entries (``together.py``), so a page that was listed before the first look is as
  good as one after it.
- A page counts only if it is whole and shows an entry above the boundary. One that was cut off
  shows the oldest keys; one without such an entry may be older than the table. Then entries and
  checkpoints are listed, side by side, after those looks.
- A checkpoint above the newest entry is left out: its own entry would be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from blockstore.bucket.api import ObjectInfo, ReadBucket
from blockstore.index.boundary import Boundary
from blockstore.index.checkpoint_name import NamedCheckpoint, read_hint
from blockstore.index.requests import Requests
from blockstore.names import (
    CHECKPOINTS,
    HINT,
    INDEX,
    checkpoint_key,
    entry_key,
    parse_checkpoint,
    parse_entry,
)
from blockstore.world import World

A = TypeVar("A")

_PAGE = 512
"""The first page. Larger: a table whose history has more costs more work for a page that is then
not used, 16 µs a key with boto3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What is listed from one version on."""

    start: int
    entries: Mapping[int, str | None]
    """Their ETags, where a listing has them, by id, in order."""
    checkpoints: Mapping[int, str | None]
    """The same of the versions that have a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLooks:
    """The results of the looks with which a cold read begins."""

    boundary: int | None
    """None where there is none."""
    hint: NamedCheckpoint | None
    listed: Listed | None
    """None where the first page does not count."""
    has_entries: bool
    """Whether the page shows an entry, at the boundary or above it."""


class Listing:
    """The listings of one table's index."""

    def __init__(
        self, bucket: ReadBucket, world: World, boundary: Boundary, requests: Requests
    ) -> None:
        self._bucket = bucket
        self._pool = world.pool
        self._boundary = boundary
        self._requests = requests
        self._is_folder = bucket.path_of(HINT) is not None

    def first(self) -> FirstLooks:
        """The first looks, side by side."""
        page, hint, boundary = self._at_once(
            self._page,
            lambda: read_hint(self._bucket),
            lambda: self._requests.timed(self._boundary.look),
        )
        found = cast("list[ObjectInfo]", page)
        value = cast("int | None", boundary)
        start, listed = value or 0, None
        entries, checkpoints = _entries(found, start), _checkpoints(found, start)
        if value is None and self._is_folder:
            entries = self.entries(0)
        if value is not None and len(found) < _PAGE and any(entry > value for entry in entries):
            listed = _listed(value, value, entries, checkpoints)
        return FirstLooks(
            boundary=value,
            hint=cast("NamedCheckpoint | None", hint),
            listed=listed,
            has_entries=bool(entries),
        )

    def _page(self) -> list[ObjectInfo]:
        """Nothing in a folder: to look at each file costs more there than to list once more."""
        if self._is_folder:
            return []
        return list(self._bucket.list(INDEX, at_most=_PAGE))

    def start_at(self, start: int, boundary: int) -> Listed:
        """The entries and the checkpoints from ``start`` on."""
        entries, checkpoints = self._at_once(
            lambda: self.entries(max(start - 1, 0)), lambda: self._checkpoints(start)
        )
        return _listed(
            start,
            boundary,
            cast("dict[int, str | None]", entries),
            cast("dict[int, str | None]", checkpoints),
        )

    def entries(self, after: int) -> dict[int, str | None]:
        """The entries above ``after``, sorted, with the ETags that the listing has."""
        listed = self._bucket.list(INDEX, start_after=entry_key(after), recursive=False)
        return _entries(listed, after + 1)

    def checkpoints(self, start: int) -> list[int]:
        """The versions from ``start`` on that have a checkpoint, sorted."""
        return list(self._checkpoints(start))

    def _checkpoints(self, start: int) -> dict[int, str | None]:
        after = checkpoint_key(start - 1) if start else ""
        return _checkpoints(
            self._bucket.list(CHECKPOINTS, start_after=after, recursive=False), start
        )

    def _at_once(self, *requests: Callable[[], object]) -> list[object]:
        return self._pool.map(_call, requests)


def _listed(
    start: int,
    boundary: int,
    entries: Mapping[int, str | None],
    checkpoints: Mapping[int, str | None],
) -> Listed:
    newest = max([boundary, *entries])
    return Listed(
        start=start,
        entries=entries,
        checkpoints={at: etag for at, etag in checkpoints.items() if at <= newest},
    )


def _entries(listed: Iterable[ObjectInfo], start: int) -> dict[int, str | None]:
    return _numbered(listed, parse_entry, start)


def _checkpoints(listed: Iterable[ObjectInfo], start: int) -> dict[int, str | None]:
    return _numbered(listed, parse_checkpoint, start)


def _numbered(
    listed: Iterable[ObjectInfo], parse: Callable[[str], int | None], start: int
) -> dict[int, str | None]:
    """The ETags by number, in order, of what has one from ``start`` on."""
    found = {parse(info.key): info.etag for info in listed}
    return {
        number: found[number]
        for number in sorted(one for one in found if one is not None and one >= start)
    }


def _call(request: Callable[[], A]) -> A:
    return request()
