"""Blockstore on Spark: read and write tables from Spark jobs.

Problem: a Spark job writes from many tasks, any of which may fail, run twice or outlive the job.
Its rows must become visible all at once or not at all, and a retried job must count once.

Mental model: one job is one block. The driver plans a write and draws the block's ULID. Each task
uploads chunks under names of its own. The commit, on the driver again, lists the chunks of the task
attempts that Spark accepted and publishes one version. A read is one snapshot: the driver picks the
chunks that can match, and tasks read only those.

Where things are:

- ``source``: the data source behind ``format("blockstore")``; Spark drives it.
- ``statements``: ``sql``, which carries out MERGE, UPDATE, DELETE and INSERT.
- ``options``: parsing of option texts. ``types``: Spark and Arrow schemas. ``settings``: settings
  of a session, held around one action. ``worker``: Spark's Python processes.
- ``reading``: ``read`` and ``how``. ``writing``: ``append``, ``upsert``, ``overwrite``
  and ``merge_into``, which return a ``Written``. ``streaming``: the stream source, the sink and
  ``foreach_batch``. ``merging``: the compactor's merges as Spark tasks (``merge_engine``).

Example::

    from blockstore import spark as bs_spark

    bs_spark.append(df, "s3://lake/flights", job=bs.Job(app="nightly", batch=17))
    flights = bs_spark.read(spark, "s3://lake/flights", where="origin = 'JFK'")
    print(bs_spark.how(flights))

``df.write.format("blockstore")`` and ``spark.read.format("blockstore")`` work without this import.
The functions do the same with less overhead. ``register`` makes the format known to a session that
does not find it.

This is the only package of the project that imports pyspark. Its exports are imported at first use:
every Python worker of Spark imports this package, and a task needs little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.spark.merging import merge_engine
    from blockstore.spark.reading.dataframe import How, how, read
    from blockstore.spark.source import register
    from blockstore.spark.statements import sql
    from blockstore.spark.streaming.batch import foreach_batch
    from blockstore.spark.writing.dataframe import append, overwrite, upsert
    from blockstore.spark.writing.merge_into import MergeInto, merge_into
    from blockstore.spark.writing.result import Written

__all__ = [
    "How",
    "MergeInto",
    "Written",
    "append",
    "foreach_batch",
    "how",
    "merge_engine",
    "merge_into",
    "overwrite",
    "read",
    "register",
    "sql",
    "upsert",
]

__getattr__ = lazy(
    __name__,
    {
        ".merging": ("merge_engine",),
        ".reading.dataframe": ("How", "how", "read"),
        ".source": ("register",),
        ".statements": ("sql",),
        ".streaming.batch": ("foreach_batch",),
        ".writing.dataframe": ("append", "overwrite", "upsert"),
        ".writing.merge_into": ("MergeInto", "merge_into"),
        ".writing.result": ("Written",),
    },
)
