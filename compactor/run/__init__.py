"""Carrying out a plan: merge, upload, commit, and report.

A job moves through three steps: the engine writes the chunks of the merged block, ``meta.json``
completes it, and one index entry replaces the inputs by it (on a table without an index its age
does). A process that dies in between leaves a table that reads as before. If the block was
complete, the next process commits it instead of merging again.

- ``execute.Executor``: one job, or all jobs of a pass. A failed job does not stop the others.
- ``change.Compact``: the index entry of a merge.
- ``resume``: commits complete merges that a dead process left.
- ``quarantine``: marks damaged blocks, and lists those that wait for a person.
- ``monitor``: how far a merge is, and how it is abandoned; also of merges on other machines.
- ``once.compact_once``: passes until nothing is left to merge.
- ``report``: ``JobResult``, ``Report``, and their JSON.

Example::

    report = compact_once(table, Settings(tier_blocks=4), watch=print)
    assert not report.left_out  # no damaged blocks
"""
