"""What Spark's own Python processes are spared.

Such a process serves one task, or one plan, after the other, and after each of them pyspark's
daemon collects all garbage in it: every object of the modules that pyspark, Arrow and we are made
of is looked at again, for 30 to 60 ms, and none of them is ever garbage.
"""

from __future__ import annotations

import gc
import os
import sys

import pyarrow as pa

from blockstore.world import World

_REUSED = "SPARK_REUSE_WORKER"
"""Spark sets it for processes that it uses again, and for no other."""

_NEW_MODULES = 50
"""So many have to be new: pandas, say, is loaded by the first task that has a use for it."""


class _Settled:
    """How many modules were there when this process was settled last."""

    modules = 0


def settle() -> None:
    """In a process that Spark uses again: what lives by now is looked at by no later collection;
    what is made from now on is collected as ever. Again only where many modules were loaded since.
    In any other process it does nothing."""
    if _REUSED in os.environ and len(sys.modules) >= _Settled.modules + _NEW_MODULES:
        gc.freeze()
        _Settled.modules = len(sys.modules)


def task_world() -> World:
    """The world of one task, in a process that is one of several on its machine:

    Arrow takes one core of it.
    """
    settle()
    pa.set_cpu_count(1)
    return World.real()
