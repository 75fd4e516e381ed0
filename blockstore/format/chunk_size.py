"""How large a chunk may be: the format's promise to whoever reads or copies one whole."""

from __future__ import annotations

from blockstore.errors import Invalid

_MIB = 1024 * 1024
LARGEST_CHUNK_BYTES = 512 * _MIB


def check_chunk_size(size: int, name: str) -> int:
    """The size, in bytes, at which the next chunk begins;

    ``name`` is what the caller calls it. Raises Invalid.
    """
    if not 0 < size <= LARGEST_CHUNK_BYTES:
        raise Invalid(
            f"{name} is {size:,} bytes, expected 1 to {LARGEST_CHUNK_BYTES:,} "
            f"({LARGEST_CHUNK_BYTES // _MIB} MiB), which is what "
            "the format promises of a chunk at most"
        )
    return size
