"""Save work in Spark's own Python processes.

Such a process runs one task or one plan after the other. After each of them pyspark's daemon runs a
full garbage collection. It visits every object of the modules of pyspark, Arrow and this project,
for 30 to 60 ms, and none of them is ever garbage.
"""

from __future__ import annotations

import gc
import os
import sys

import pyarrow as pa

from blockstore.world import World

_REUSED = "SPARK_REUSE_WORKER"
"""Spark sets it only in processes that it reuses."""

_NEW_MODULES = 50
"""The number of new modules that makes freezing again worthwhile: the first task that uses pandas,
for example, loads it."""


class _Settled:
    """The number of modules when ``settle`` last froze this process."""

    modules = 0


def settle() -> None:
    """Exclude the objects that exist now from later garbage collections (``gc.freeze``).

    It acts only in a process that Spark reuses, and again only after many modules were loaded.
    """
    if _REUSED in os.environ and len(sys.modules) >= _Settled.modules + _NEW_MODULES:
        gc.freeze()
        _Settled.modules = len(sys.modules)


def task_world() -> World:
    """The world of one task. Arrow uses one core, since several such processes share a machine."""
    settle()
    pa.set_cpu_count(1)
    return World.real()
