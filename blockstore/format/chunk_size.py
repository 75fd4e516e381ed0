"""The limit of a chunk's size, which the format promises to programs that read one completely."""

from __future__ import annotations

from blockstore.errors import Invalid

_MIB = 1024 * 1024
LARGEST_CHUNK_BYTES = 512 * _MIB


def check_chunk_size(size: int, name: str) -> int:
    """Return the size, in bytes, at which the next chunk begins, or raise Invalid.

    ``name`` is the caller's name of the setting.
    """
    if not 0 < size <= LARGEST_CHUNK_BYTES:
        raise Invalid(
            f"{name} is {size:,} bytes, expected 1 to {LARGEST_CHUNK_BYTES:,} "
            f"({LARGEST_CHUNK_BYTES // _MIB} MiB), the format's limit"
        )
    return size
