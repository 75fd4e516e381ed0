"""Metadata of a table for engines that do not read Blockstore.

Chunks are plain Parquet. What other engines lack is the list of them, and the rows that newer
versions hide. An export writes both, next to the table's own objects.

    iceberg/      Iceberg's metadata, below ``metadata/``
    delta/        Delta's log, below ``_delta_log/``
    formats.py    both, and where each is
    exported.py   what an export made, and how its objects are written
    own_id.py     UUIDs that follow from a text
    shown.py      the chunks of a version, and the rows of each that are not shown

An export is derived and never an authority: no reader or writer of Blockstore looks at it. Every
name follows from what the object holds, so any process may write it again.
"""
