"""Where an engine puts what outgrows its memory: a folder of its own in the system's folder for
temporary files, ``blockstore-spill-<token>``, held by the engine's processes, the one that made it
and the one that spills (``scratch.py``)."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from blockstore import scratch
from blockstore.scratch import LOCK, HeldFolder

__all__ = ["clear_abandoned", "spill_folder"]

_PREFIX = "blockstore-spill-"
_NAME = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")


def spill_folder() -> HeldFolder:
    """A new folder. Raises OSError."""
    made, lock = tempfile.mkstemp(prefix=_PREFIX, suffix=LOCK)
    os.close(made)
    return HeldFolder(Path(lock.removesuffix(LOCK)))


def clear_abandoned() -> int:
    """Remove what dead processes of this user left; answers how many folders that were."""
    return scratch.clear_abandoned(Path(tempfile.gettempdir()), _NAME, any_user=False)
