"""The operations of a table: append, overwrite, delete, revert, restore, rewrite, expire, alter.

Problem: an operation must be visible completely or not at all, happen once although it is retried,
and notice when another process changed the rows that it is about.

Model: an operation looks at the table (one listing, then the index: ``view.py``), decides what it
adds and removes, uploads new blocks that no version names yet, and commits one index entry. If the
table moved on meanwhile, it plans again; only what concerns its own rows is a ``Conflict`` for the
caller (``scope.py``).

A handle chooses once whether its table has an index: ``Contents`` (``contents.py``) for reads,
``Publisher`` (``append.py``) for writes.

Types:
- ``Writer`` and ``AppendedBlock``: one append, a block of new rows.
- ``Access``: what a transaction works with; ``View``: the table as it sees it; ``Scope``: the rows
  that it is about.
- ``Replacing`` (``replacement.py``): blocks replaced in one entry; overwrite and delete use it,
  with ``FreshRows`` (``new_rows.py``) and ``Rewriter`` (``kept_rows.py``).
- ``Begun`` (``distributed_overwrite.py``): an overwrite whose rows many processes write.
- ``Changed``, ``Reverted``, ``Restored`` (``results.py``): what an operation did, or would do.
- ``place.py``: whether a URL holds a table, a lake, or nothing.

Example::

    table = blockstore.open("file:///data/readings")
    table.append(rows)
    table.delete("site = 'oslo' and value < 0")
"""
