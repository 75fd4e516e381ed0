"""Marks: small objects next to a block's meta.json that schedule its removal or exclude it from
merges.

Rules: a mark is written once. Its times are integer seconds, as in Thanos, and only inform people:
the object's LastModified by the store's clock decides. A mark that cannot be read is Corrupt, not
missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from blockstore.format.document import Document, parse
from blockstore.format.features import FORMAT_VERSION, refuse_newer
from blockstore.names import deletion_mark_key, no_compact_mark_key


class MarkReason(StrEnum):
    """Why a block is to be deleted."""

    SUPERSEDED = "superseded"
    RETENTION = "retention"
    REVERT = "revert"
    PARTIAL = "partial"
    MALFORMED = "malformed"
    MANUAL = "manual"


class NoCompactReason(StrEnum):
    """Why the compactor skips a block."""

    MANUAL = "manual"
    SIZE = "size"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionMark:
    """``deletion-mark.json``: the block is removed once the mark is ``delete_delay`` old and a
    fresh look at the table agrees."""

    ulid: str
    deletion_time_s: int
    reason: MarkReason
    details: str = ""
    superseded_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCompactMark:
    """``no-compact-mark.json``: no merge takes the block."""

    ulid: str
    no_compact_time_s: int
    reason: NoCompactReason
    details: str = ""


def encode_mark(mark: DeletionMark | NoCompactMark) -> bytes:
    """Return the bytes of a mark."""
    value: dict[str, Any] = {"version": FORMAT_VERSION, "id": mark.ulid}
    if isinstance(mark, DeletionMark):
        value["deletion_time"] = mark.deletion_time_s
    else:
        value["no_compact_time"] = mark.no_compact_time_s
    value |= {"reason": mark.reason.value, "details": mark.details}
    if isinstance(mark, DeletionMark) and mark.superseded_by is not None:
        value["superseded_by"] = mark.superseded_by
    return orjson.dumps(value)


def decode_deletion_mark(data: bytes, *, ulid: str) -> DeletionMark:
    """Return the deletion mark found in directory ``ulid``.

    Raises Corrupt or NewerFormat, naming the block.
    """
    document = _document(data, ulid, deletion_mark_key(ulid))
    return DeletionMark(
        ulid=ulid,
        deletion_time_s=document.time("deletion_time"),
        reason=MarkReason(document.choice("reason", tuple(MarkReason))),
        details=document.text("details", ""),
        superseded_by=document.ulid("superseded_by") if document.has("superseded_by") else None,
    )


def decode_no_compact_mark(data: bytes, *, ulid: str) -> NoCompactMark:
    """Return the no-compact mark found in directory ``ulid``.

    Raises Corrupt or NewerFormat, naming the block.
    """
    document = _document(data, ulid, no_compact_mark_key(ulid))
    return NoCompactMark(
        ulid=ulid,
        no_compact_time_s=document.time("no_compact_time"),
        reason=NoCompactReason(document.choice("reason", tuple(NoCompactReason))),
        details=document.text("details", ""),
    )


def _document(data: bytes, ulid: str, key: str) -> Document:
    document = parse(data, key)
    refuse_newer(document.integer("version", low=1), document.subject)
    if document.ulid("id") != ulid:
        document.fail("id", f"{ulid}, the name of its directory")
    return document
