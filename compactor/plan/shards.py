"""Sharding: which of several processes merges a stream.

Rules:
- A stream belongs to exactly one shard of a count, by a hash of its labels and resolution that is
  the same on every machine and in every release.
- A shard only merges. It begins with the merges of its streams that an earlier process uploaded and
  did not commit. It holds the role ``compactor/<i>``; everything but merging belongs to the role
  ``compactor``.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.index.epochs import COMPACTOR

_TEXT = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Shard ``number`` (from 0) of ``count``."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count:
            raise Invalid(
                f"shard {self.number}/{self.count} does not exist: {self.count} shards have the "
                f"numbers 0 to {self.count - 1}"
            )

    @property
    def role(self) -> str:
        """The role that the shard claims."""
        return f"{COMPACTOR}/{self.number}"

    def owns(self, stream: StreamKey) -> bool:
        """Whether this shard merges the stream."""
        text = json.dumps(
            [stream.labels, stream.resolution], ensure_ascii=True, separators=(",", ":")
        )
        digest = hashlib.sha256(text.encode("ascii")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number


def parse_shard(text: str) -> Shard:
    """``"1/4"``: the second of four. Raises Invalid."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise Invalid(f"--shard is {text!r}, expected NUMBER/COUNT, such as 0/4")
    return Shard(number=int(match[1]), count=int(match[2]))
