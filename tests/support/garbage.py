"""Collecting garbage where a test looks at what is still alive."""

from __future__ import annotations

import gc


def older_is_left() -> None:
    """What is alive now stays: a collection after this looks only at what came later. One that
    looks at all that a long run of tests has imported takes half a second."""
    gc.collect()
    gc.freeze()
