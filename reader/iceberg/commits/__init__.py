"""What other engines commit to a table: rows in files of their own become blocks.

    request.py   what a client asks for, and what it requires of the table
    files.py     the files that its snapshot adds, and those of the table that it leaves out
    expanded.py  how large a manifest may be, decompressed
    narrowed.py  what of a manifest is decoded
    rows.py      the rows of such a file, under the table's columns
    commit.py    all of it as one version

A client commits on top of the export that it loaded (``blockstore/export/iceberg/``). Only the
difference between its last snapshot and that export counts. Added files are read, checked and
written again as blocks: the client's own files are never part of the table.
"""
