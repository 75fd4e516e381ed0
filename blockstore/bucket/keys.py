"""The keys that buckets accept, and the ETag of content: common to all adapters.

Rules:
- A key is relative, its parts are separated by single ``/``, and no part is empty, ``.`` or ``..``.
- A key is text that UTF-8 can write, without NUL, of at most 1,024 bytes (S3's limit).
- A content ETag depends on the bytes alone: the same content has the same one on any machine.
"""

from __future__ import annotations

import hashlib
import re

from blockstore.errors import Invalid

_KEY = re.compile(r"(?!\.{1,2}(?:/|\Z))[^/\0]+(?:/(?!\.{1,2}(?:/|\Z))[^/\0]+)*")
_MAX_KEY_BYTES = 1024


def check_key(key: str) -> str:
    """Return ``key``, or raise Invalid, which says what a key looks like."""
    if _KEY.fullmatch(key) is None:
        raise Invalid(
            f"the object key {key!r} is refused: a key is relative, its parts are separated by "
            "single '/', and no part is empty, '.' or '..'"
        )
    if not key.isascii() or len(key) > _MAX_KEY_BYTES:
        _check_bytes(key)
    return key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if a key can start with it, else raise Invalid."""
    folder = prefix.rpartition("/")[0]
    if folder:
        check_key(folder)
    elif prefix.startswith("/"):
        check_key(prefix)
    return prefix


def content_etag(data: bytes | memoryview) -> str:
    """Return the ETag of content: the first 128 bits of its SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()[:32]


def skippable(prefix: str, start_after: str) -> str:
    """Return how much of ``start_after`` a listing may hand to a store of either order.

    A store orders by bytes or by folder, so this ends before the first character below ``/``. Nor
    is it a folder's name: a store that orders by folder would skip what is in it.
    """
    if not start_after.startswith(prefix):
        return ""
    low = (at for at in range(len(prefix), len(start_after)) if start_after[at] < "/")
    end = next(low, len(start_after))
    if start_after[end - 1 : end] != "/":
        end -= 1
    return start_after[:end] if end > len(prefix) else ""


def _check_bytes(key: str) -> None:
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise Invalid(
            f"the object key {key!r} is refused: character {error.start} has no UTF-8 form; "
            "use text without lone surrogates"
        ) from None
    if size > _MAX_KEY_BYTES:
        raise Invalid(
            f"the object key {key[:60]!r}… is refused: it has {size} bytes, expected at most "
            f"{_MAX_KEY_BYTES}"
        )
