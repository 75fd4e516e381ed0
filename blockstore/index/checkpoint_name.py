"""How a checkpoint is named by the hint and by later entries: its version, and the size and SHA-256
of its bytes.

A name vouches for bytes and has no authority: bytes that fit a name are used without another look,
and bytes that fit none prove themselves by their content (``checkpoint.py``). Names of earlier
releases are a plain version; nothing fits them. Which versions get a checkpoint is here too
(``every``), for a process that need not write one (``checkpoint_write.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.document import Document, parse
from blockstore.names import HINT

EVERY = 64
_EVERY_MOST = 512
_BLOCKS_A_ENTRY = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCheckpoint:
    """One checkpoint's name; without ``sha256`` it is an earlier release's, which named the version
    alone."""

    id: int
    bytes: int = 0
    sha256: str | None = None

    def to_json(self) -> int | dict[str, Any]:
        """The name as JSON holds it."""
        if self.sha256 is None:
            return self.id
        return {"id": self.id, "bytes": self.bytes, "sha256": self.sha256}


def name_of(version: int, data: bytes) -> NamedCheckpoint:
    """The name of the checkpoint of this version with these bytes."""
    return NamedCheckpoint(id=version, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def newer(one: NamedCheckpoint | None, other: NamedCheckpoint | None) -> NamedCheckpoint | None:
    """That of the higher version; of two of one version the first."""
    if one is None or other is None:
        return one or other
    return other if other.id > one.id else one


def read_name(fields: Document, field: str) -> NamedCheckpoint | None:
    """The name in a field, None where there is none. Raises Corrupt."""
    if not fields.has(field):
        return None
    if not isinstance(fields.raw(field), dict):
        return NamedCheckpoint(id=fields.integer(field))
    name = fields.document(field)
    sha256 = name.text("sha256", limit=64)
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        name.fail("sha256", "64 hexadecimal digits in lower case")
    return NamedCheckpoint(id=name.integer("id"), bytes=name.integer("bytes"), sha256=sha256)


def names_of(
    mine: NamedCheckpoint, hint: NamedCheckpoint | None, entries: Sequence[bytes]
) -> tuple[NamedCheckpoint, ...]:
    """What the hint and the entries after a checkpoint, given as bytes, call it; none more once one
    fits ``mine``."""
    found: list[NamedCheckpoint] = []
    for name in chain([hint], map(_named_in, reversed(entries))):
        if name is not None and name.id == mine.id and name.sha256 is not None:
            found.append(name)
            if name == mine:
                break
    return tuple(found)


def _named_in(entry: bytes) -> NamedCheckpoint | None:
    """The checkpoint that an entry names;

    None also for an entry that cannot be read: its fold will report it.
    """
    try:
        return read_name(parse(entry, "an entry"), "checkpoint")
    except Corrupt:
        return None


def how_to_replace_checkpoint(url: str) -> str:
    """What to do about a damaged checkpoint, as a clause."""
    return (
        f"'blockstore repair {url}' makes it again if the entries before it still exist; "
        "otherwise restore it from a copy, or, if no version can be read, stop all writers and "
        f"run 'blockstore index rebuild {url}'"
    )


def read_hint(bucket: ReadBucket) -> NamedCheckpoint | None:
    """The checkpoint that the hint names, or None: a guess, never authority."""
    try:
        return read_name(parse(bucket.get(HINT).data, HINT), "checkpoint")
    except (ObjectMissing, Corrupt):
        return None


def every(blocks: int) -> int:
    """A committer to a table of so many blocks writes a checkpoint after every entry whose id is a
    multiple of this: 64, and from 131,072 blocks on more, up to 512.

    Rarer: a cold read has more entries to get and to fold, 1.3 KiB and 0.1 ms each; 63 of them are
    6 ms and four rounds of requests, 511 are 50 ms and 32 rounds. More often: each commit pays a
    larger share of a checkpoint: 6 us and 16 to 120 bytes a block (decisions 10 and 67).
    """
    due = EVERY
    while due < _EVERY_MOST and blocks >= 2 * due * _BLOCKS_A_ENTRY:
        due *= 2
    return due
