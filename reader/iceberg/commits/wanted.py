"""A commit of rows: the snapshots that a client adds. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blockstore.errors import Invalid
from blockstore.export.iceberg.metadata import BRANCH
from blockstore.reader.iceberg.commits.required import Required
from blockstore.reader.iceberg.documents import number_of, object_of, text_of

NOTHING = 0
"""The version that the rows of a new table are added to."""
_QUERY, _EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
_NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A micro-batch of a streaming query of Spark."""

    query: str
    """The query's id, which its checkpoint keeps."""
    number: int
    """From 0. Spark never asks for a lower one once a higher one was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(Required):
    """A commit of rows."""

    base: int
    """The version that the client has loaded, or ``NOTHING``."""
    snapshot: int
    """The id that it gave to its last snapshot."""
    time_ms: int
    """When it made that, by its own clock."""
    manifest_list: str
    """Where that lists its files."""
    between: tuple[str, ...]
    """The lists of the snapshots before it in the same commit, which nothing needs."""
    epoch: Epoch | None = None
    """Where its rows are those of one."""


def rows_of(updates: Sequence[Mapping[str, Any]], required: Required) -> Wanted:
    """Return what these updates of snapshots ask for. Raises Invalid."""
    snapshots: dict[int, Mapping[str, Any]] = {}
    head: int | None = None
    for update in updates:
        if update["action"] == "add-snapshot":
            snapshot = object_of(update.get("snapshot"), "the snapshot of add-snapshot")
            snapshots[number_of(snapshot, "snapshot-id")] = snapshot
        elif update.get("ref-name") == BRANCH:
            head = number_of(update, "snapshot-id")
        else:
            raise Invalid(
                f"the ref {str(update.get('ref-name'))[:100]!r} is not possible here: a commit "
                f"sets the branch {BRANCH!r}; make tags with Blockstore"
            )
    if head is None or head not in snapshots:
        raise Invalid(
            "the commit does not set the branch 'main' to a snapshot that it adds, and nothing "
            "else can be committed here"
        )
    last = snapshots[head]
    lists = {text_of(one, "manifest-list") for one in snapshots.values()}
    return Wanted(
        uuid=required.uuid,
        base=_base(snapshots, head, is_new=required.is_new),
        snapshot=head,
        time_ms=number_of(last, "timestamp-ms"),
        manifest_list=text_of(last, "manifest-list"),
        between=tuple(sorted(lists - {text_of(last, "manifest-list")})),
        requires=required.requires,
        epoch=_epoch(last.get("summary")),
    )


def _epoch(summary: object) -> Epoch | None:
    """The epoch that a snapshot's summary names."""
    found = summary if isinstance(summary, dict) else {}
    query, number = found.get(_QUERY), found.get(_EPOCH)
    if not isinstance(query, str) or not query or not isinstance(number, str):
        return None
    return Epoch(query=query, number=int(number)) if _NUMBER.fullmatch(number) else None


def _base(snapshots: Mapping[int, Mapping[str, Any]], head: int, *, is_new: bool) -> int:
    """The snapshot on which the first added one is based."""
    left, at = dict(snapshots), head
    while at in left:
        found = left.pop(at)
        is_first = is_new and found.get("parent-snapshot-id") in (None, -1)
        at = NOTHING if is_first else number_of(found, "parent-snapshot-id")
    if left:
        raise Invalid("the commit adds snapshots that do not lead to the one of the branch 'main'")
    if is_new != (at == NOTHING):
        raise Invalid(f"the commit is based on the snapshot {at}, which the table does not have")
    return at
