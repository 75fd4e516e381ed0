"""Entries and checkpoints of an index are decoded, folded and encoded once, in tests that read the
same ones a thousand times.

All of that is pure: the same bytes are the same entry, the same entry on the same state is the same
state, and a state has one checkpoint. A test that enumerates crashes opens copies of one table
again and again, and most of its time would go into that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from blockstore.index import checkpoint, checkpoint_write, gc, tags
from blockstore.index.checkpoint import GetLeaves
from blockstore.index.entry import decode_entry
from blockstore.index.fold import fold
from blockstore.index.state import State

A = TypeVar("A")


@pytest.fixture
def decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For ``usefixtures``: what a test has decoded, folded or encoded is not worked out again."""
    monkeypatch.setattr("blockstore.index.read.decode_entry", functools.cache(decode_entry))
    monkeypatch.setattr("blockstore.index.read.decode_checkpoint", _decoded_once())
    monkeypatch.setattr("blockstore.index.read.fold", _once(fold))
    encode = _once(checkpoint.encode_checkpoint)
    for module in (checkpoint, checkpoint_write, gc, tags):
        monkeypatch.setattr(module, "encode_checkpoint", encode)


def _decoded_once() -> Callable[..., State]:
    """Of checkpoints that are no roots: those are of a handle, by whose leaves they are held."""
    known: dict[tuple[object, ...], State] = {}

    def once(data: bytes, *, leaves: GetLeaves | None = None, **given: Any) -> State:
        key = (data, *sorted(given.items()))
        if key in known:
            return known[key]
        state = checkpoint.decode_checkpoint(data, leaves=leaves, **given)
        if state.root is None:
            known[key] = state
        return state

    return once


def _once(function: Callable[..., A]) -> Callable[..., A]:
    """The same answer for the same objects. They are kept: one that is gone lends its identity."""
    known: dict[tuple[int, ...], tuple[tuple[object, ...], A]] = {}

    def once(*given: object) -> A:
        key = tuple(map(id, given))
        if key not in known:
            known[key] = given, function(*given)
        return known[key][1]

    return once
