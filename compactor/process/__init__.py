"""The compactor as a process: every table of a lake, for months, in one thread pool.

Things fail for months as well, so each loop of each table runs, fails and backs off by itself. A
failure is classed once (``failures``): retry, degraded (a person must look), or fatal (the process
ends). The status is made from notes in memory; reading it sends no request.

- ``serve.serve``: from configuration to exit code: signals, HTTP, the work directory.
- ``process.Process``: finds tables (``lake``), opens a ``keeper.Keeper`` for each, adds its loops.
- ``keeper.Keeper``: one table: its handle, its role, and one function for each loop.
- ``merge_loop.MergeLoop``: one merge per turn, so that tables take turns.
- ``loops.Loops``: when each loop runs. ``ledger.Ledger``: what they note.
- ``status.Status``: the frozen value behind the page, the metrics (``instruments``) and the probes
  (``readiness``).

Example::

    process = Process(bucket, World.real(), load_config(), LocalEngine())
    process.start()
    process.ended.wait()
    process.stop()
"""
