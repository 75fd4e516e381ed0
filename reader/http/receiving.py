"""An uploaded file on its way into the bucket.

Rules: the file is stored under a name of its own before its job exists, and no listing shows it
before it is complete. It is hashed as it arrives; memory does not grow with it. An upload that the
client does not finish leaves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from anyio import to_thread

from blockstore.bucket import Bucket

_PIECE = 4 << 20
_HEAD = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What arrived."""

    bytes: int
    sha256: str


async def received(bucket: Bucket, key: str, parts: AsyncIterator[bytes]) -> Received:
    """Write what arrives to ``key``."""
    writer = await to_thread.run_sync(bucket.writer, key)
    digest, size, held = hashlib.sha256(), 0, bytearray()
    try:
        async for part in parts:
            digest.update(part)
            size += len(part)
            held += part
            if len(held) >= _PIECE:
                await to_thread.run_sync(writer.write, bytes(held))
                held.clear()
        if held:
            await to_thread.run_sync(writer.write, bytes(held))
        await to_thread.run_sync(writer.close)
    except BaseException:
        writer.abort()
        raise
    return Received(bytes=size, sha256=digest.hexdigest())


async def headed(
    parts: AsyncIterator[bytes], check: Callable[[bytes], None]
) -> AsyncIterator[bytes]:
    """Pass on what arrives, once ``check`` has seen its first line, or the first 64 KiB of that;
    what it raises ends the upload before anything of it was passed on."""
    held, seen = b"", False
    async for part in parts:
        if seen:
            yield part
            continue
        held += part
        if b"\n" in held or len(held) >= _HEAD:
            check(held)
            seen = True
            yield held
    if not seen:
        check(held)
        yield held


async def measured(parts: AsyncIterator[bytes]) -> Received:
    """Measure and discard what arrives, to compare it with an earlier upload."""
    digest, size = hashlib.sha256(), 0
    async for part in parts:
        digest.update(part)
        size += len(part)
    return Received(bytes=size, sha256=digest.hexdigest())
