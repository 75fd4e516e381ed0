"""Blockstore on Spark: the data source, and the faster ways in and out of a DataFrame.

``df.write.format("blockstore").mode("append").save(url)`` and
``spark.read.format("blockstore").load(url)`` work without this import. ``append``, ``overwrite``
and ``read`` do the same with less overhead, and answer; ``register`` makes the format known to a
session whose lookup of ``pyspark_*`` modules is disabled by a broken one.

The only package of the project that imports pyspark. What it exports is imported at first use:
every Python worker of Spark imports this package, and a task needs little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.spark.appending import append
    from blockstore.spark.merging import merge_engine
    from blockstore.spark.overwriting import overwrite
    from blockstore.spark.reading import How, how, read
    from blockstore.spark.registering import register
    from blockstore.spark.streaming.batch import foreach_batch
    from blockstore.spark.written import Written

__all__ = [
    "How",
    "Written",
    "append",
    "foreach_batch",
    "how",
    "merge_engine",
    "overwrite",
    "read",
    "register",
]

__getattr__ = lazy(
    __name__,
    {
        ".appending": ("append",),
        ".merging": ("merge_engine",),
        ".overwriting": ("overwrite",),
        ".reading": ("How", "how", "read"),
        ".registering": ("register",),
        ".streaming.batch": ("foreach_batch",),
        ".written": ("Written",),
    },
)
