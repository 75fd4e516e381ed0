"""Reading: one snapshot of a table as a DataFrame.

Problem: Spark's own Parquet reader is faster than rows through Python, but it does not read every
type exactly, does not reach every store, and prunes by bounds that ignore NaN.

Mental model: the driver resolves a snapshot and prunes its chunks by statistics. The plan is then
carried out by one of two engines that return the same rows. ``native`` gives Spark's Parquet reader
the list of files. ``python`` reads the chunks with pyarrow in Spark's tasks, as the data source
does. ``auto`` uses ``native`` where nothing prevents it. Where rows change, the driver first finds
which rows newer versions hide; each engine leaves these out by their positions.

- ``dataframe``: ``read`` and ``how``, the choice of an engine (``Engine``, ``How``).
- ``native`` (with ``reach``: paths that the JVM can open) and ``mapped``: the two engines.
- ``data_source``: ``SnapshotReader``, what ``load`` and ``mapped`` run in a task.
- ``target``: the version and the schema of a DataFrame. ``options``: the options of ``load``.
- ``shares``: chunks divided among tasks; ``positions``: their hidden rows on the way there.
- ``batches``: values in the types that Spark requires.
- ``filters``: conditions as Spark columns.

Example::

    flights = read(spark, "s3://lake/flights", where="delay > 60", columns=["origin", "delay"])
    how(flights).reason     # why Spark's Parquet reader, or Python, reads it
"""
