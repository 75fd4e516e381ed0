"""Cleaning: publish aged blocks, then mark and remove what no version needs.

A block may be removed only if no reader can need it: it is not live, no version above the boundary
and no tag names it, and its deletion mark is older than ``delete_delay``. Deciding is pure and
belongs to ``blockstore.lifecycle``. This room looks, carries the decisions out at a bounded rate,
and reports.

- ``cleaner.Cleaner``: one pass over one table, in protocol order; ``plan_cleaning`` is its dry run.
- ``discovery.publish``: commits aged blocks that no entry names yet.
- ``carry_out``: places and withdraws the marks of a pass.
- ``report.CleaningReport``: what a pass did, and why it left the rest.
- ``retention.retain``: expires blocks whose rows are all older than the table's retention.
- ``exports.Exporter``: keeps metadata for other engines up to date.
- ``checkpoints.catch_up``: writes a checkpoint that no committer wrote.

Example::

    held = claim(table.log, table.world, COMPACTOR)
    report = Cleaner(table, held).run()
    print(len(report.marked), len(report.removed))
"""
