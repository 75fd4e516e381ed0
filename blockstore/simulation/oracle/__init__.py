"""What must be true after every step, and at the end: each file holds one of the promises.

- ``directories.py``: a block is never edited, and loses nothing before its time (R1, R7, R8);
- ``history.py``: the index: contiguous entries, a boundary that only rises, checkpoints that equal
  the fold (3.4);
- ``meaning.py``: what each entry may do to the rows, by ``masks.py`` where they have no identity,
  and by ``row_versions.py`` where they have one;
- ``snapshots.py``: what a reader may see; ``end.py``: what must be left when all is over.
- ``judge.py`` gets every change and calls them.
"""
