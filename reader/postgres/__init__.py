"""The Postgres door: the gateway in PostgreSQL's protocol, for its drivers and tools.

A client connects, its password is a token, and its SQL runs where that of HTTP runs: the same
engine, snapshots, limits and jobs (``reader/doors``). SQL is the engine's; PostgreSQL's catalogs
are rows that are made for the caller. The protocol is code of our own: the reason is in
``docs/decisions/0055-the-postgres-door.md``.

    door.py        the port, and a session for each connection
    wire.py        messages as bytes, without input and output
    peer.py        one connection: what comes and goes, TLS, its end
    signing_in.py  TLS, token, database
    session.py     one session: the simple and the extended protocol
    running.py     what each kind of statement does; transactions; cursors.py
    texts.py       a text split into statements; spelling.py, unnesting.py: in the engine's SQL
    prepared.py, portals.py   a statement that is prepared, and its rows
    types.py, text.py, intervals.py, binary.py, rows.py   columns and rows for the client
    values.py, inference.py, sampling.py, dml.py   parameters: values and types
    copying.py, copy_lines.py   COPY to and from the client
    catalog.py, catalog_columns.py, functions.py   pg_catalog and information_schema
    variables.py   SET and SHOW; states.py: errors with their SQLSTATE

Example::

    with PostgresDoor(gateway, Listening(host="127.0.0.1", port=5432)) as door:
        ...  # psql -h 127.0.0.1 -U me lake
"""
