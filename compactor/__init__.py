"""The compactor: the one process that merges the blocks of a table and removes old ones.

Writers upload many small blocks. Queries need few large ones, and blocks that were merged, deleted
or expired must be removed one day. The compactor does both. It shares nothing with writers and
readers but the bucket, and it may die at any request: what it uploaded and did not commit is debris
that no reader sees.

A pass over one table is look → plan → merge → commit, and separately clean:

- ``plan``: what the table looks like (``Observation``), and which blocks to merge (``PlannedJob``).
  Deciding is pure.
- ``merge``: many blocks into one, in bounded memory. A ``MergeEngine`` writes chunks and nothing
  else; ``LocalEngine`` is ours, Spark brings its own.
- ``run``: a job carried out (``Executor``): merge, upload, commit. ``compact_once`` does passes
  until nothing is left to merge.
- ``clean``: discovery, watermarks, marks and removal (``Cleaner``), and retention.
- ``process``: all of that for every table of a lake, for months: loops, failures, status, metrics.
- ``web``: the page of the process.

On top are the command line (``verbs``, ``care_verbs``), what they do by hand (``by_hand``) and the
configuration (``config``, ``settings``).

Example::

    import blockstore as bs
    from blockstore.compactor.run.once import compact_once
    from blockstore.compactor.settings import Settings

    report = compact_once(bs.open("lake/flights"), Settings())
    print(report.version, len(report.done))
"""
