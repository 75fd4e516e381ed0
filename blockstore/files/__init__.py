"""Files in cells: bytes of any size that a row names, kept as long as a row does.

A file is a folder ``files/<ULID>/`` of the table: the object with its bytes, and ``file.json``,
written last. A cell of a column of type ``file`` holds the handle: id, name, content type, bytes
and SHA-256. A file is uploaded first (``upload.py``), then rows that name it are written; the
writer looks at each file that its rows name (``look.py``). Reading compares the SHA-256
(``reading.py``). What blocks name is read from their file columns (``named.py``); the compactor
removes files that no block names (``compactor/clean/files.py``, which also says why that is safe).

Example::

    handle = put_file(bucket, world, "report.pdf")
    with open_handle(bucket, handle) as file:
        data = file.read()
"""
