"""Writing: the rows of a DataFrame as one block and one version.

Problem: tasks fail, are retried and run twice, and a job may die at any point. Its rows must become
visible once, all together, or not at all.

Mental model: a write is a plan, tasks and a commit. The plan (``WritePlan``) is made on the driver
and travels to every task by pickle. A task writes chunks under names that no other attempt uses.
The commit receives the results of the attempts that Spark accepted, writes meta.json and publishes
one entry. What failed attempts wrote is never listed; readers do not see it, and the compactor
removes it.

- ``dataframe``: ``append``, ``upsert`` and ``overwrite``; each runs one Spark action (``run``).
- ``data_source``: ``TasksWriter``, the same write driven by Spark for ``save``.
- ``options``: ``WriteOptions``, the one description of a write that both use.
- ``prepare``: the plan, made and checked; ``plan``: its value. ``task``: one task, with
  ``uploads``: chunks uploaded by a thread of their own.
- ``identity``: which writes fit a table whose rows change.
- ``commit``: the chunks become a block; ``upsert``: one of changes.
- ``first_write``: appends with a condition. ``in_order``: the batches of a stream.
- ``result``: ``Written``, what a write did. ``progress``: log lines during a long job.

Example::

    written = append(df, "s3://lake/flights", job=Job(app="nightly", batch=17))
    written.version, written.rows, written.already
"""
