"""Entries and checkpoints of an index are decoded once, in tests that read the same ones a thousand
times.

Decoding is pure: the same bytes are the same entry. A test that enumerates crashes opens copies of
one table again and again, and half of its time would go into that.
"""

from __future__ import annotations

import functools

import pytest

from blockstore.index import read


@pytest.fixture
def decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For ``usefixtures``: what a test has decoded it does not decode again."""
    for name in ("decode_checkpoint", "decode_entry"):
        monkeypatch.setattr(f"blockstore.index.read.{name}", functools.cache(getattr(read, name)))
