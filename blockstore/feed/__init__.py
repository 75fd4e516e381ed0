"""The change feed: what each version of a table changed, row by row.

The changes of version N are the difference of the tables at N-1 and at N. Merges, purges and
promotions change no row, so they have none, and it does not matter whether they came before or
after N is read: a version above the boundary keeps its blocks.

An entry is one of three things (``entries.py``): it changes no row; it **writes** new rows, or
changes of rows, and removes nothing; or it **replaces** blocks. Of writes a run of versions is read
at once (``runs.py``): one look at the state before the run says of each row that the run touches
whether it was there (``known.py``), and the rest follows from the order of the versions. What was
replaced, and the net difference of a tag below the boundary, is found by comparing the two states
(``difference.py``): by identity, or where there is none by count (``equal_rows.py``).
"""
