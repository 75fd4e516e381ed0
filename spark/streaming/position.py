"""How far a stream has read a table: the offset in Spark's checkpoint.

A position is a version of the index, and the number of blocks inside it if a batch ended there:
- ``{"version": 40}``: everything up to version 40.
- ``{"version": 40, "blocks": 3}``: that, and the first three blocks that version 41 added.
- ``{"snapshot": 40, "blocks": 3}``: the first three blocks, by ULID, of the table as it was at
  version 40; after the last of them comes version 41.

``commit`` is the id of the commit that made the version. A table that was deleted and created again
has other commits with the same numbers, and a stream must not continue there.

``from``, only in the end of a query's first batch, is the position where that batch began. Spark
logs where a batch ends. Where the first one begins it requests again for each run of the batch,
when the table may have newer versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blockstore.errors import Corrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place between two blocks of the table's history."""

    version: int
    commit: str = ""
    """Empty if the version's entry was collected, or for version 0, before the first."""
    blocks: int = 0
    snapshot: bool = False
    """Whether the table as it was at ``version`` is still being read."""
    begun: Position | None = None
    """In the end of the first batch: where that batch began. None in every other position."""

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark stores and compares it: equal positions give equal texts."""
        value: dict[str, Any] = {"snapshot" if self.snapshot else "version": self.version}
        if self.commit:
            value["commit"] = self.commit
        if self.blocks or self.snapshot:
            value["blocks"] = self.blocks
        if self.begun is not None:
            value["from"] = self.begun.to_json()
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Position:
        """The position of an offset. Raises Corrupt for a value that no release has written."""
        name = "snapshot" if "snapshot" in value else "version"
        version, blocks, commit = value.get(name), value.get("blocks", 0), value.get("commit", "")
        counts = all(
            isinstance(one, int) and not isinstance(one, bool) and one >= 0
            for one in (version, blocks)
        )
        begun = value.get("from")
        # The beginning of a batch does not itself have a beginning.
        flat = "from" not in value or (isinstance(begun, Mapping) and "from" not in begun)
        unknown = value.keys() - {name, "blocks", "commit", "from"}
        if not counts or not isinstance(commit, str) or not flat or unknown:
            raise Corrupt(
                f"the stream's offset is {dict(value)!r}, expected one such as {{'version': 40}}: "
                "another source or a newer release wrote it. Start with a new checkpoint location"
            )
        return cls(
            version=int(version or 0),
            commit=commit,
            blocks=int(blocks),
            snapshot=name == "snapshot",
            begun=None if begun is None else cls.from_json(begun),
        )
