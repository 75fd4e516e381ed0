"""Blockstore on Spark: the data source, and the faster ways in and out of a DataFrame.

``df.write.format("blockstore").mode("append").save(url)`` and
``spark.read.format("blockstore").load(url)`` work without this import. ``append``, ``overwrite``
and ``read`` do the same with less overhead, and answer; ``register`` makes the format known to a
session whose lookup of ``pyspark_*`` modules is disabled by a broken one.

The only package of the project that imports pyspark. What it exports is imported at first use:
every Python worker of Spark imports this package, and a task needs little of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "How": "blockstore.spark.reading",
    "Written": "blockstore.spark.written",
    "append": "blockstore.spark.appending",
    "foreach_batch": "blockstore.spark.streaming.batch",
    "how": "blockstore.spark.reading",
    "merge_engine": "blockstore.spark.merging",
    "overwrite": "blockstore.spark.overwriting",
    "read": "blockstore.spark.reading",
    "register": "blockstore.spark.registering",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(
            f"module 'spark' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    return getattr(import_module(_HOMES[name]), name)
