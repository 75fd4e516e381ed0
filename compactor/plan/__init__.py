"""What to merge: a look at the table, and a plan.

A merge costs reading and writing all its inputs, so blocks should be rewritten few times, and the
result should suit queries, which read by time. The plan therefore works on aligned time windows
(2h, 8h, 2d, 14d): once a window is closed, its blocks become one. What no closed window holds is
merged by size.

- ``observe.Observation``: the table at one moment. With an index the candidates are its live
  blocks; without one they are what the cover chooses.
- ``candidates``: the blocks that may be merged, as columns; ``relevant`` chooses those on which a
  plan can depend, and ``order`` reads what else is needed of them.
- ``inputs``: blocks as a merge reads them, made when it begins.
- ``damage``: blocks of which a listing or their meta.json shows that they are damaged.
- ``skip``, ``shards``: streams that are left alone, and the streams of one of several processes.
- ``jobs``: the values: ``Candidate``, ``PlanSettings``, ``PlannedJob``, ``Reason``.
- ``plan.plan``: the decision, a pure function of candidates, settings and time; ``grouping`` forms
  the groups.

Example::

    seen = observe(table, skip=settings.skip)
    for job in plan_seen(seen, settings):
        print(job.reason, job.details, [block.ulid for block in job.inputs])
"""
