"""What an export made, how its objects are written, and what the next one need not make again."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from blockstore.bucket.api import Bucket
from blockstore.errors import AlreadyExists

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One version of a table, for other engines."""

    version: int
    metadata: str
    """The URL that an engine takes: of Iceberg's document, or of a Delta table."""
    files: int
    deletes: int
    """The rows of these files that are not shown."""
    objects: frozenset[str]
    """The keys of all objects that the export consists of, but for hints."""
    written: int
    """Those that were not there before."""
    document: bytes = b""
    """Iceberg's document itself, JSON."""


class Memo:
    """The parts of a table's last export, by what they follow from; for one thread.

    A part is what the rest of the export must know of an object, without its bytes.
    """

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[tuple[str, ...], Any]] = {}
        self._now: dict[Hashable, tuple[tuple[str, ...], Any]] = {}

    def begin(self, there: Container[str]) -> None:
        """Begin an export: forget the parts that the last one did not use, and those whose objects
        are not ``there`` any more."""
        self._before = {
            one: found for one, found in self._now.items() if all(key in there for key in found[0])
        }
        self._now = {}

    def known(self, follows_from: Hashable) -> tuple[tuple[str, ...], Any] | None:
        """The keys of the objects and the part, if they were made before."""
        found = self._now.get(follows_from) or self._before.get(follows_from)
        if found is not None:
            self._now[follows_from] = found
        return found

    def learn(self, follows_from: Hashable, keys: tuple[str, ...], part: Any) -> None:
        """Remember a part whose objects have been written."""
        self._now[follows_from] = (keys, part)


class Sink:
    """Writes the objects of one export."""

    def __init__(self, bucket: Bucket, memo: Memo) -> None:
        self._bucket = bucket
        self._memo = memo
        self.keys: set[str] = set()
        self.written = 0

    def put(self, key: str, data: bytes) -> None:
        """Write an object if it is absent: its name follows from what it holds."""
        self.keys.add(key)
        try:
            self._bucket.put_if_absent(key, data)
            self.written += 1
        except AlreadyExists:
            return

    def part(self, follows_from: Hashable, make: Callable[[], tuple[str, bytes, T]]) -> T:
        """The part that ``make`` gives, after the key and the bytes of its object; one that the
        last export has made is neither made nor written again."""
        (one,) = self.parts(follows_from, lambda: [make()])
        return one

    def parts(
        self, follows_from: Hashable, make: Callable[[], list[tuple[str, bytes, T]]]
    ) -> list[T]:
        """The same for parts that are made together."""
        known = self._memo.known(follows_from)
        if known is not None:
            keys, parts = known
            self.keys.update(keys)
            return cast("list[T]", parts)
        made = make()
        for key, data, _ in made:
            self.put(key, data)
        parts = [part for _, _, part in made]
        self._memo.learn(follows_from, tuple(key for key, _, _ in made), parts)
        return parts
