"""Where queries run: in this process, or in separate processes that can be killed.

A ``Runner`` (``task.py``) takes a ``Task``, which is SQL text and values only, and returns a
``Running`` query. There are two runners:

    inprocess.py   for a single user: one DuckDB instance here; queries of the main thread run in
                   another thread (threads.py), so that Ctrl-C can stop them
    pool.py        for a gateway: worker processes, one query at a time each; a query that outgrows
                   its limits costs its own process only. worker.py is the other side of the pipe,
                   frames.py what passes through it, memory.py the watch on its memory

Both use a locked DuckDB ``Instance`` (``instance.py``) that can read the given folders only; in a
worker the kernel enforces that as well, where it can (``landlock.py``). ``failures.py`` turns
DuckDB's messages into the errors of the project.

Example::

    pool = WorkerPool(["/lake"], Limits(memory_bytes=1 << 30))
    running = pool.start(Task(views=views, sql=sql), began)
    for batch in running.batches():
        ...
"""
