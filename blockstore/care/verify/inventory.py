"""One LIST of a complete table: the blocks' directories, and names that the format does not know.

Rules: only ``names.py`` parses names; an unknown one is reported and never changed. A listing that
failed midway decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from blockstore.bucket.api import ObjectInfo, ReadBucket
from blockstore.care.finding import Check, Finding, Severity
from blockstore.lifecycle.listing import Directory
from blockstore.names import (
    BOUNDARY,
    CHECKPOINTS,
    HINT,
    INDEX,
    UNNAMED,
    parse_checkpoint,
    parse_entry,
    parse_leaf,
    split_block_key,
)

_RESERVED = frozenset({"files", "incoming", "jobs", "_delta_log", "metadata"})
"""Folders that the format reserves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything below a table's prefix."""

    now_ms: int
    """The store's clock, read before the listing."""
    directories: Mapping[str, Directory]
    unknown: Mapping[str, int]
    """Names that the format does not know: an object or its outermost folder, and how many objects
    are there."""


def take_inventory(bucket: ReadBucket) -> Inventory:
    """List the table."""
    now_ms = bucket.now_ms()
    objects: dict[str, dict[str, ObjectInfo]] = {}
    unknown: dict[str, int] = {}
    for found in bucket.list():
        place = split_block_key(found.key)
        if place is not None:
            objects.setdefault(place[0], {})[place[1]] = found
        elif not _is_known(found.key):
            name = _outermost(found.key)
            unknown[name] = unknown.get(name, 0) + 1
    directories = {
        ulid: Directory(ulid=ulid, objects=inside) for ulid, inside in sorted(objects.items())
    }
    return Inventory(now_ms=now_ms, directories=directories, unknown=dict(sorted(unknown.items())))


def check_names(found: Inventory) -> Iterator[Finding]:
    """Report each unknown name as a note."""
    for name, objects in found.unknown.items():
        found_there = (
            "an object" if objects == 1 and not name.endswith("/") else f"{objects:,} objects"
        )
        yield Finding(
            severity=Severity.NOTE,
            check=Check.NAME,
            object=name,
            what=f"{found_there} with a name that the format does not know; no program reads it",
            fix="move it elsewhere, or leave it",
        )


def _is_known(key: str) -> bool:
    if key in (BOUNDARY, HINT, UNNAMED):
        return True
    if any(parse(key) is not None for parse in (parse_entry, parse_checkpoint, parse_leaf)):
        return True
    return key.partition("/")[0] in _RESERVED


def _outermost(key: str) -> str:
    """Return the folder of an unknown object; the object itself in the table's own folders."""
    if key.startswith((INDEX, CHECKPOINTS, BOUNDARY.partition("/")[0] + "/")):
        return key
    head, slash, _ = key.partition("/")
    return head + slash
