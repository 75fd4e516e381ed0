"""The deterministic world behind ``blockstore simulate``: the real code, under faults, judged after
every step.

Problem: the protocols must hold whatever stops, stalls, arrives late or is lost, and no test of one
case after the other covers that.

Model: one seed decides everything. Processes are threads that take turns at each request to a store
in memory. Before each request a fault may be drawn. An oracle that shares no decision with the code
looks at every change and every result, and raises ``Violation`` once a promise is broken; the same
seed breaks it again.

- ``run.py`` puts a run together, ``series.py`` many of them; ``ground.py`` is what all parts share,
  ``stage.py`` adds the oracle.
- ``schedule.py``: whose turn it is and what time it is; ``process.py``: what lives, stalls, dies
  and starts again.
- ``faults.py``: the fault model; ``store.py``: what is really stored; ``bucket.py``: what a process
  sees of it.
- ``replaced_history.py``: the disasters that replace a table's history during a run; ``damage.py``:
  damage after its end.
- ``changes.py``: what operations on rows that have an identity mean; ``images.py`` and
  ``versions.py``: such rows.
- ``ledger.py``: what was requested, and what came back; ``oracle/``: what must be true after every
  step.
- ``actors/``: the foundation's processes, and the compactor's, which is loaded by name.
- ``report.py``: how often everything happened.

Example::

    outcome = run(seed=7, steps=1_000, roles=cast())
    outcome.problem                        # None, or the promise that was broken
"""
