"""Chunks of remote stores, kept on this machine's disk for the queries that read them.

DuckDB reads local files only. Before a query over a remote table starts, the columns that it can
read of each chunk are fetched into the cache, or the complete chunk, and held: while a query holds
a file, no eviction can remove its bytes. A chunk never changes, so a cached file is valid for as
long as it exists; its bytes are checked when they arrive, and once by each process that finds them.

    ChunkCache   the cache: one folder, a limit of bytes, shared by the processes of one user
    Wanted       a chunk that a query needs: bucket, key, size, hash
    Some         the column chunks that it needs, where it does not need all (columns.py)
    Hold         the local paths of the chunks that one query reads, until it is released
    HoldFolder   the folder of hard links by which a query holds its files (hold_folders.py)

Example::

    cache = ChunkCache(default_folder(), world, limit_bytes=10 << 30)
    hold = cache.hold(wanted)
    try:
        read(hold.paths)
    finally:
        hold.release()
"""

from blockstore.reader.cache.chunks import ChunkCache, Hold, Some, Wanted, default_folder

__all__ = ["ChunkCache", "Hold", "Some", "Wanted", "default_folder"]
