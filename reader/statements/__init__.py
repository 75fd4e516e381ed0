"""SQL that writes: INSERT, UPDATE, DELETE, MERGE, and the definitions of tables.

A text is split into statements by DuckDB's own parser. A statement that changes rows becomes one
SELECT, which the query engine admits and runs like any query; its rows say what to do with each row
of the table, and are committed as one version by the operations that Python has too.

    door.py       ``blockstore.sql``; shell.py: ``blockstore sql``; HTTP: ``jobs/statements.py``
    session.py    runs a statement: parse, plan (bound.py), try on empty tables (twins.py), commit
    transaction.py  BEGIN … COMMIT; together.py: statements whose changes no entry names yet
    texts.py      a text as statements; tokens.py, reading.py: a statement as its clauses.py
    first_rows.py  the rows of CREATE TABLE … AS
    rows.py       the SELECT of a change; kept.py: the rows that stay in a block that is replaced
    shape.py      the columns and labels of its table; streams.py: which labels its rows have
    changing.py   commits it where rows have an identity; plain.py: where they have none
    defining.py   CREATE TABLE; altering.py: ALTER TABLE; calling.py: CALL; explaining.py: EXPLAIN

Example::

    with opened("lake") as session:
        for text in session.parse("UPDATE t SET a = 1 WHERE k = 2"):
            print(session.run(text, Doing()))
"""

from __future__ import annotations
