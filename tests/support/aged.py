"""Files that lay there long before the test began: only ``mtime`` can be put back, so it is
believed alone."""

from __future__ import annotations

import os

import pytest

from blockstore.bucket.local_tree import Tree

__all__ = ["believe_mtime"]


def believe_mtime(patch: pytest.MonkeyPatch) -> None:
    """From now on a local object is as old as its ``mtime`` says."""

    def mtime_ms(self: Tree, found: os.stat_result) -> int:
        return found.st_mtime_ns // 1_000_000

    patch.setattr(Tree, "modified_ms", mtime_ms)
