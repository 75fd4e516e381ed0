"""How far a stream has read a table: the offset that Spark keeps in its checkpoint.

A position is a version of the index, with what lies inside it where a batch had to end there:
- ``{"version": 40}``: everything up to version 40.
- ``{"version": 40, "blocks": 3}``: that, and the first three blocks that version 41 added.
- ``{"snapshot": 40, "blocks": 3}``: the first three blocks, by ULID, of the table as it was at
  version 40; after the last of them comes version 41.

``commit`` is the id of the commit that made the version. A table that was deleted and made anew has
other commits under the same numbers: a stream must not go on there as if nothing had happened.

``from``, in the end of a query's first batch alone, is the position where that batch began. Spark
logs where a batch ends; where the first one begins it asks again each time it runs it, when the
table may have gone on.
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
    """Empty where the version is too old to be looked at, or 0: before the first."""
    blocks: int = 0
    snapshot: bool = False
    """Whether the table as it was at ``version`` is still being read."""
    begun: Position | None = None
    """Where the first batch began, in its end; None in every other place."""

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark stores and compares it: the same position is the same text."""
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
        """The position of an offset. Raises Corrupt for what no release of ours has written."""
        name = "snapshot" if "snapshot" in value else "version"
        version, blocks, commit = value.get(name), value.get("blocks", 0), value.get("commit", "")
        whole = all(
            isinstance(one, int) and not isinstance(one, bool) and one >= 0
            for one in (version, blocks)
        )
        begun = value.get("from")
        # Where a batch began is no end of a first batch itself.
        apart = "from" not in value or (isinstance(begun, Mapping) and "from" not in begun)
        strange = value.keys() - {name, "blocks", "commit", "from"}
        if not whole or not isinstance(commit, str) or not apart or strange:
            raise Corrupt(
                f"the stream's offset is {dict(value)!r}, expected one such as {{'version': 40}}: "
                "it was written by another "
                "source, or by a newer release; start with a checkpoint location of its own"
            )
        return cls(
            version=int(version or 0),
            commit=commit,
            blocks=int(blocks),
            snapshot=name == "snapshot",
            begun=None if begun is None else cls.from_json(begun),
        )
