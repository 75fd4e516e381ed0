"""What the versions of a table showed while each was the newest, and what must be told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from blockstore.feed import changes as feed_changes
from blockstore.feed import equal_rows, runs
from blockstore.format.identity import ROW_ID, VERSION
from blockstore.table import Table

OWN = ("_change", VERSION, "_time", "_reason")
Told = Counter[tuple[str, str]]
"""Changes of one version: what happened, and the row as text."""


class Recorded:
    """The rows of each version, as a query of that version shows them."""

    def __init__(self) -> None:
        self.rows: dict[int, list[dict[str, Any]]] = {0: []}

    def record(self, table: Table) -> None:
        """Look at the versions that are new since the last call."""
        newest = table.poll()
        identity = table.definition.identity
        hidden = [] if identity is None else [VERSION]
        if identity is not None and ROW_ID in identity.columns:
            hidden.append(ROW_ID)
        for version in range(max(self.rows) + 1, newest + 1):
            snapshot = table.snapshot(version=version)
            names = [*snapshot.definition.schema.names, *hidden]
            self.rows[version] = snapshot.scan(columns=names).to_table().to_pylist()

    def told(self, table: Table, version: int, *, images: bool) -> Told:
        """What the feed must say of a version."""
        before, after = self.rows[version - 1], self.rows[version]
        identity = table.definition.identity
        if identity is None:
            gone, came = (Counter(text(row) for row in rows) for rows in (before, after))
            return Counter(
                {
                    **{("delete", row): count for row, count in (gone - came).items()},
                    **{("insert", row): count for row, count in (came - gone).items()},
                }
            )
        old, new = (
            {tuple(row[name] for name in identity.columns): row for row in rows}
            for rows in (before, after)
        )
        found: Told = Counter()
        for one in old.keys() | new.keys():
            if one not in new:
                found["delete", text(old[one])] += 1
            elif one not in old:
                found["insert", text(new[one])] += 1
            elif old[one][VERSION] != new[one][VERSION]:
                found["update", text(new[one])] += 1
                if images:
                    found["update_before", text(old[one])] += 1
        return found

    def check(self, table: Table, after: int, *, images: bool = False) -> None:
        """The feed after a version says what the versions showed."""
        found = by_version(table, after, images=images)
        for version in range(after + 1, max(self.rows) + 1):
            wanted = self.told(table, version, images=images)
            assert found.pop(version, Counter()) == wanted, f"version {version} after {after}"
        assert not found


def by_version(
    table: Table, after: int, until: int | None = None, *, images: bool = False
) -> dict[int, Told]:
    """What the feed says, by version; its order is checked."""
    found: dict[int, Told] = {}
    last = after
    for batch in table.changes(after, until, before_images=images):
        assert batch.num_rows
        for row in batch.to_pylist():
            version = row[VERSION]
            assert version >= last, "versions are in order"
            last = version
            found.setdefault(version, Counter())[row["_change"], text(row)] += 1
    return found


def text(row: dict[str, Any]) -> str:
    """The columns of a row that a user has, as a text."""
    return repr(sorted((name, value) for name, value in row.items() if name not in OWN))


@contextmanager
def small_runs(versions: int, rows: int, images: int) -> Iterator[None]:
    """Limits that are met by few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feed_changes, "RUN_VERSIONS", versions)
        patch.setattr(feed_changes, "RUN_ROWS", rows)
        patch.setattr(runs, "RUN_ROWS", rows)
        patch.setattr(runs, "IMAGES", images)
        patch.setattr(equal_rows, "AT_ONCE", rows)
        yield
