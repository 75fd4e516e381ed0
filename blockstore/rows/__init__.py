"""Rows that change: inserts, upserts, updates, deletes and merges of rows that have an identity.

Every such operation writes a block of changes for each stream of which it changes rows
(``streams.py``, ``block.py``): the new image of each row that it touches, or a tombstone. One entry
of the index makes them a version (``change.py``). An operation that has read rows is planned again
where others changed these rows first (``attempts.py``). What counts of all versions of a row is
decided in ``scan/current.py``, and nowhere else.
"""
