"""The life of a block: upload, discovery by listing, the exact cover, marks and removal.

Problem: blocks are uploaded by processes that may stop at any moment, and readers, mergers and
removers do not talk to each other. Nothing that a reader may still use may go, and what a dead
process left behind must go in the end.

Model: a block is a directory named by a ULID. Its meta.json is written last and names all its
files, so a block is complete or it is not there (R3). Blocks are never edited (R1); they are
marked, and removed ``delete_delay`` after the mark, after a new look that decides the same (R6,
R8). Where blocks overlap, the cover chooses those that account for each source exactly once (3.2).

Decisions are pure functions over one look at the bucket; executors carry them out.

Types:
- ``finish_upload`` and ``resume`` (``upload.py``): data first, meta.json last, then look again.
- ``Listing``, ``Found`` (``listing.py``) and ``Catalog``: what a listing shows, and what was read
  of it before.
- ``cover`` and ``list_snapshot`` (``list_path.py``): which blocks are read, and which rows of them.
- ``classify`` (``states.py``): the state of a block, and which state may follow which.
- ``Sight``, ``decide_marks``, ``decide_removals`` (``decide.py``): a cleaning pass, by the rules of
  a table with an index (``by_index.py``) or without (``by_cover.py``); ``Order``
  (``removal_order.py``) and ``Remover`` (``remove.py``): in which order blocks go, and how.

Example::

    catalog = Catalog(bucket, world)
    synced = catalog.sync()                # one LIST, and a GET for each new block
    listed = list_snapshot(synced.found, None, properties, synced.listing.now_ms)
    listed.cover.chosen                    # the blocks to read
"""
