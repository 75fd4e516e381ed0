"""Which table a client means in a commit, and what it requires of it. Pure.

Rules:
- The client requires ``main`` to be at the snapshot that it loaded. Any version of the table will
  do: what was committed since is judged by what the commit changes.
- Every other requirement must hold for the newest version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blockstore.errors import Conflict, Invalid
from blockstore.export.iceberg.metadata import BRANCH
from blockstore.reader.iceberg.documents import number_of, text_of

_UUID = "assert-table-uuid"
_REF = "assert-ref-snapshot-id"
_HELD = {
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", "last-partition-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
}
"""By requirement: its own key, and that of the table's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """What a client requires."""

    uuid: str
    """Of the table that it has loaded."""
    requires: Mapping[str, int]
    """Values of the table's metadata."""
    is_new: bool = False
    """Whether it requires that there is no such table, and names none."""

    def check(self, document: Mapping[str, Any]) -> None:
        """Raise Conflict where the newest metadata is not as the client requires."""
        if document["table-uuid"] != self.uuid:
            raise Conflict(
                "the table was dropped and created again since the client loaded it: load it again"
            )
        for name, value in self.requires.items():
            if document[name] != value:
                raise Conflict(
                    f"the client requires {name} {value}, and the table has {document[name]} by "
                    "now: load the table again"
                )


def required_of(requirements: Sequence[Mapping[str, Any]]) -> Required:
    """Return what a commit requires. Raises Invalid."""
    uuid, requires, is_new = "", {}, False
    for one in requirements:
        kind = text_of(one, "type")
        if kind == _UUID:
            uuid = text_of(one, "uuid")
        elif kind == "assert-create":
            is_new = True
        elif kind in _HELD:
            key, name = _HELD[kind]
            requires[name] = number_of(one, key)
        elif kind != _REF or one.get("ref") != BRANCH:
            raise Invalid(f"the requirement {kind[:100]!r} is not known here")
    if is_new and (uuid or requires):
        raise Invalid("the commit requires that there is no table, and something of it as well")
    if not uuid and not is_new:
        raise Invalid(f"the commit lacks the requirement {_UUID!r}, which names the table it means")
    return Required(uuid=uuid, requires=requires, is_new=is_new)
