"""The state of a large table as a tree: a checkpoint is a small root, and what it holds is in
leaves that roots of many versions share (design 11.1, decision 71).

Problem: a checkpoint that holds every block costs each writer the whole table, and each reader too.

Model: blocks, and accounted sources, are sorted by ULID and cut into leaves of about a thousand
blocks (``split.py``) at places that depend on the ULIDs alone. A leaf is stored under the SHA-256
of its content (``encoding.py``), so equal ranges of two versions are one object. The root is the
checkpoint of its version: it lists the leaves with sums over each (``leaf.py``, ``sums.py``,
``root.py``).

- ``split.py``, ``encoding.py``, ``sums.py``, ``leaf.py`` and ``root.py`` are values and pure
  functions.
- ``loading.py`` gets leaves and proves them; ``blocks.py`` and ``sources.py`` are what a state
  holds of them: nothing is loaded before it is needed.
- ``grow.py`` says which leaves a state has, from those of the root before it; ``write.py`` writes
  them, then the root, then looks whether it may be relied on (``proof.py``).
- ``repair.py`` writes lost leaves and roots again; ``compare.py`` says whether a root holds a
  state.
- ``collect.py`` removes leaves that nothing names.
"""
