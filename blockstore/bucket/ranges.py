"""Whether a response to a request for a range holds the bytes that were requested.

Rules:
- A response counts only if it begins where the request did, and ends where the request did or where
  the object does. Its body must have exactly that length.
- A store that ignores ranges, and responds with the complete object, is reported once: each range
  then costs a whole object, and no byte is wrong.
- Anything else is ``Unavailable``, so that it is requested again: the bytes of another place are
  never returned, nor too few.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from blockstore.errors import Unavailable

_log = logging.getLogger(__name__)
_ignoring: set[str] = set()
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRange:
    """What a response says that it holds: bytes ``start`` to ``stop`` of an object of ``size``."""

    start: int
    stop: int
    size: int | None

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.stop} of {'?' if self.size is None else self.size}"


def parse_content_range(header: str) -> FoundRange | None:
    """Return what a Content-Range header says; None if it says nothing."""
    match = _CONTENT_RANGE.fullmatch(header.strip())
    if match is None:
        return None
    size = None if match[3] == "*" else int(match[3])
    return FoundRange(start=int(match[1]), stop=int(match[2]) + 1, size=size)


def checked_range(
    data: bytes, found: FoundRange | None, start: int, length: int, place: str
) -> bytes:
    """Return ``data``, the body of a partial response (206).

    Args:
        data: The body.
        found: What the response says that it holds.
        start: The first byte that was requested.
        length: How many were requested.
        place: The object, for the message.

    Raises:
        Unavailable: The body is not what was requested.
    """
    wanted = start + length
    if found is not None:
        stop = wanted if found.size is None else min(wanted, found.size)
        if (found.start, found.stop, len(data)) == (start, stop, stop - start):
            return data
    raise Unavailable(
        f"bytes {start} to {wanted} of {place} were requested, and the response holds "
        f"{len(data)} bytes, by its header {found or 'of no range'}: try again; if it stays so, a "
        "proxy or the store changes responses"
    )


def range_of_all(data: bytes, start: int, length: int, url: str) -> bytes:
    """Return a range of the complete object that the store at ``url`` sent in its place."""
    if url not in _ignoring:
        _ignoring.add(url)
        _log.warning(
            "%s ignores ranges: every read of a part fetches the complete object; use a store, or "
            "a proxy before it, that supports Range",
            url,
        )
    return data[start : start + length]
