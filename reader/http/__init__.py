"""The gateway over HTTP: routes, tokens and streamed responses.

This room turns requests into calls and results into bytes; what a query returns, what a job does
and how fresh a table is are decided in ``query``, ``jobs`` and ``tables``.

A request passes three layers: security headers and CORS (``app.py``), the edge (``edge.py``:
request id, body limits, access log, the last error handler), and a route. A route receives the
``Gateway`` and the ``Caller`` (``callers.py``). Its signature says which scope the caller needs;
for a job that depends on its kind, so ``job_routes.py`` checks. An error of any layer becomes one
JSON shape (``problems.py``).

    app.py            the application
    gateway.py        tables, engine, jobs, tokens and metrics of one process
    query_routes.py   POST /v1/query
    table_routes.py   tables, history, timeline
    change_routes.py  the changes of a table, also as events
    job_routes.py     jobs; receiving.py stores an uploaded file
    streaming.py      responses that are made while they are read
    negotiate.py      Accept → the form of a result

Example::

    gateway = Gateway(settings, World.real())
    with Server(application(gateway), settings.http.listening):
        gateway.start()
"""
