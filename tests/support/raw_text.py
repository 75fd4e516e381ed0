"""Bytes that are no UTF-8 where text is expected: Arrow makes and carries such arrays, and Parquet
files hold them.

``unchecked`` writes them as another program would: a device that makes its blocks by itself, or an
earlier release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from blockstore.format import casting

__all__ = ["raw_text", "unchecked"]


def raw_text(values: Sequence[bytes | None], kind: pa.DataType | None = None) -> pa.Array:
    """An array of text with exactly these bytes."""
    stored = (
        pa.large_binary() if kind is not None and pa.types.is_large_string(kind) else pa.binary()
    )
    return pa.array(values, stored).view(kind or pa.string())


@contextmanager
def unchecked() -> Iterator[None]:
    """Whatever is written meanwhile is not looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(casting, "_refuse_other_than_text", lambda *args: None)
        yield
