"""The sequenced index of a table: its versions, and the one commit that makes a new one.

Problem: an object store has no transactions, and many processes write to one table. A reader needs
versions that are complete, and a writer needs to know whether its write counts.

Model: a version is a number. Version N + 1 is made by creating the object ``index/N+1.json`` if
absent: of all writers that try, one wins. The state of a version is the fold of all entries up to
it. Checkpoints hold such states, so that no process reads from entry 1. Entries at or below the
boundary (``gc/index.boundary``) are void; collection raises the boundary first and deletes
afterwards. Each entry names the one below it, so entries of a replaced history never mix with
another one.

A commit has five steps (protocol 3.3): done already, fenced or condemned, conflict, PUT, boundary.

Types:
- ``Log`` (``log.py``): a handle that polls, travels in time and commits; start here.
- ``Entry``, ``AddedBlock`` and ``State``: one step of the history, and what it adds up to
  (``fold.py``; pure).
- ``Change`` (``change.py``): an operation that can be committed; ``rules.py`` decides,
  ``commit.py`` carries out, ``queue.py`` groups the commits of threads.
- ``Boundary``, ``encode_checkpoint``, ``collect`` (``gc.py``), ``Kept`` (``reachable.py``: the
  blocks that a version, or a tag, still names), ``claim`` (``epochs.py``: roles that must be
  single).

Example::

    log = Log(bucket, world)
    state = log.poll()                     # the newest version
    log.commit(Append(commit=world.ids.ulid(), blocks=(meta,)))
    log.at(state.version)                  # the state as it was before
"""
