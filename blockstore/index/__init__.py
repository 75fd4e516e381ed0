"""The sequenced index of a table: entry N+1 is created if absent, and the state of a version is the
fold up to it.

``log.py`` is the door: a handle that polls, travels in time and commits. Below it: entries and
their fold (pure), the state (columnar, persistent), the boundary, checkpoints, and the steps of a
commit (decided in ``rules.py``, carried out in ``commit.py``, shared by threads in ``queue.py``).
Next to it: roles (``epochs.py``), tags, collection (``gc.py``), and what is still named by a
version that can be requested (``reachable.py``).
"""
