"""An oracle of rows that change: a map from identity to its versions, moved by the meaning of each
operation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


class Oracle:
    """Every version of every row; None is a deletion."""

    def __init__(self, key: Callable[[Row], Hashable]) -> None:
        self._key = key
        self.versions: dict[Hashable, dict[int, Row | None]] = {}

    def current(self) -> dict[Hashable, Row]:
        """The rows that queries see."""
        return {
            one: row
            for one, versions in self.versions.items()
            if (row := versions[max(versions)]) is not None
        }

    def version_of(self, one: Hashable) -> int:
        """The version of a current row."""
        return max(self.versions[one])

    def put(self, version: int, rows: Iterable[Row]) -> None:
        """New images of rows, by their keys."""
        for row in rows:
            self.versions.setdefault(self._key(row), {})[version] = dict(row)

    def put_at(self, version: int, one: Hashable, row: Row | None) -> None:
        """A new image of a row, or its deletion."""
        self.versions.setdefault(one, {})[version] = None if row is None else dict(row)

    def delete(self, version: int, ones: Iterable[Hashable]) -> None:
        """Deletions; of rows that never were, too."""
        for one in ones:
            self.versions.setdefault(one, {})[version] = None
