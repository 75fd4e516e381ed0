"""The gateway as an Arrow Flight SQL server: SQL and bulk ingest for ADBC, JDBC and pyarrow.

This room turns calls of Flight into those of ``doors``, and what they return into streams. It
decides nothing that another door decides as well. The protocol itself is pyarrow's; its messages
are declared in ``messages.py``.

A call passes ``calls.py`` (token, limit, what ends it early, log), then ``server.py`` finds what
carries it out. The gateway keeps nothing for a client between two calls: prepared statements and
tickets are handles that contain what they represent (``handles.py``).

    door.py        the server's life: address, certificate, start and stop
    server.py      each call of the protocol → what carries it out
    calls.py       what applies to every call
    statements.py  queries, prepared statements, statements that change rows
    streams.py     rows as batches that a client takes
    ingest.py      many rows into one table
    catalog.py     tables, columns and keys; sql_info.py: what this server is
    failures.py    an error → a status and a sentence

Example::

    with FlightDoor(gateway, Listening(host="127.0.0.1", port=31337)) as door:
        print(door.url)                      # grpc://127.0.0.1:31337
"""
