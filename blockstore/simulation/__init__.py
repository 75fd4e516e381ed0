"""The deterministic world behind ``blockstore simulate``: the real code, under faults, judged after
every step.

One seed decides everything. ``run.py`` puts a run together, and these are its parts:
- ``schedule.py`` whose turn it is and what time it is; ``process.py`` what lives, stalls, dies and
  starts again;
- ``faults.py`` the fault model; ``store.py`` what is really stored; ``bucket.py`` what a process
  sees of it;
- ``replaced_history.py`` the disasters that replace a table's history during a run; ``damage.py``
  damage after its end;
- ``ledger.py`` what was requested, and what came back; ``oracle/`` what must be true after every
  step;
- ``actors/`` the foundation's processes, and the compactor's, which is loaded by name;
- ``report.py`` how often everything happened.
"""
