"""Iceberg metadata of a table, for engines that do not read Blockstore.

Chunks are plain Parquet with field ids. What other engines lack is the list of them, and the rows
that newer versions hide. An export (``export.py``) writes both below ``metadata/``: manifests
(``manifests.py``), position deletes (``deletes.py``) and one ``metadata.json`` a version
(``metadata.py``). Types and columns are translated by ``schema.py``.

The export is derived and never an authority: no reader or writer of Blockstore looks at it, and
every name below ``metadata/`` follows from what it holds, so any process may write it again.
"""
