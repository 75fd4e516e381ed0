"""Reading remote chunks by ranges: few bytes, checked, fetched ahead.

The problem: on an object store each request takes 10 to 50 ms, and a chunk has columns and rows
that a query does not need. So a query should read ranges, many at once, and as few as possible that
follow one another. But a range cannot be compared with the hash of a whole file.

The mental model: a block has the hashes of all *segments* of its chunks (``format/segments.py``).
A ``Fetcher`` reads whole segments, compares each with its hash, and keeps them in a *store*, by the
chunk's SHA-256 and the segment's number. First it *opens* a chunk: the tail (page index and
footer) and the hashes, side by side. Then it *fills* ranges that the footer names. Both are
*courses*: they say which requests may run side by side, and ``flow`` runs those of many chunks at
once, in bounded memory, with results in order.

- ``pieces.py``: which segments to request together; pure
- ``remote.py``: a chunk, and how it can be checked
- ``fetcher.py``: opening and filling
- ``course.py``, ``flow.py``: one after the other, many at once
- ``held.py``: fetched bytes as a file; a hole raises
- ``store.py``, ``bounded.py``: what is kept

Example::

    def course():
        opened = yield from fetcher.opening(remote)
        held = yield from fetcher.filling(opened, ranges)
        return held.read_at(length, start)

    data = in_turn(world.pool, course())
"""
