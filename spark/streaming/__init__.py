"""Streams: a sink that writes each micro-batch once, and a source that follows a table's versions.

Problem: Spark runs a micro-batch again after a crash, and keeps only batch numbers and offsets in
its checkpoint. Each row must count once, in the table that is written and in the query that reads.

Mental model of the sink: a micro-batch is a job, named by its query and its number. The index
records which batches were committed, so a batch that runs again writes nothing.

Mental model of the source: an offset is a ``Position`` in the table's history. A batch is the
blocks between two positions, and running it again reads the same blocks. Merges deliver nothing.
Removed or changed rows stop the stream, unless it is set to ignore them.

- ``sink``: the writer that Spark drives; ``batch``: the job of a micro-batch and ``foreach_batch``.
- ``source``: the reader that Spark drives; ``follower``: from a position to the next batch;
  ``entries``: what one entry brings to a stream; ``position``: the offset.
- ``options``: the options of both.

Example::

    query = (
        spark.readStream.format("blockstore").load("s3://lake/flights")
        .writeStream.foreachBatch(foreach_batch("s3://lake/copy"))
        .option("checkpointLocation", "s3://lake-checkpoints/copy").start()
    )
"""
