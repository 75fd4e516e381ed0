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
    from blockstore.spark.merging import merge_engine
    from blockstore.spark.reading.dataframe import How, how, read
    from blockstore.spark.source import register
    from blockstore.spark.streaming.batch import foreach_batch
    from blockstore.spark.writing.dataframe import append, overwrite
    from blockstore.spark.writing.result import Written

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
    "How": "blockstore.spark.reading.dataframe",
    "Written": "blockstore.spark.writing.result",
    "append": "blockstore.spark.writing.dataframe",
    "foreach_batch": "blockstore.spark.streaming.batch",
    "how": "blockstore.spark.reading.dataframe",
    "merge_engine": "blockstore.spark.merging",
    "overwrite": "blockstore.spark.writing.dataframe",
    "read": "blockstore.spark.reading.dataframe",
    "register": "blockstore.spark.source",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(
            f"module 'spark' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    return getattr(import_module(_HOMES[name]), name)
