"""A table of very many blocks, made in seconds, to measure what grows with their number.

Problem: what a million blocks cost cannot be seen in a table of a hundred, and writing a million
takes hours.

Model: no block has files, since neither the index nor a plan reads any. A checkpoint at version 1
names all of them, and the boundary is there too, as in a table whose older history was collected.
From then on everything is real: the code that opens, plans and commits, and the objects that it
reads and writes.

- ``table.py`` makes the table.
- ``work.py`` is what is measured, and ``measure.py`` measures it: each in a process of its own.

Example::

    for figure in measure_large(100_000):
        print(figure.work, figure.wall_s, figure.peak_mib)
"""
