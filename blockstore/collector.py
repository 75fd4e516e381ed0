"""Python's garbage collector, left out while many objects are made that all stay.

It looks at young objects after every few hundred, and in the end at all that the process holds:
while thousands of blocks are decoded that is half of the time, and it finds nothing, since nothing
that is made there is dropped.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection until the end, in any thread; one that its user has switched off stays off.
    What other threads drop in circles meanwhile waits as well."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
