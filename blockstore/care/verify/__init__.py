"""Verify: check a complete table and report what is wrong. Nothing is changed.

The problem: a store can lose or corrupt any object, and one damaged object must not hide another.

The mental model: one LIST of the table first, then the index (protocol 3.2). The fast check
compares the listing with every meta.json and with the index. The deep check also reads the bytes of
every file, in bounded memory. Tables without an index, and tables whose index cannot be read, are
checked too. What readers do not need is a note; what a person must decide is a warning; lost or
wrong rows are an error.

Modules: ``table`` runs the checks in order. ``inventory`` lists, ``index`` checks the index,
``live`` the blocks that it names, ``kept`` those that only tags and older versions name, ``others``
all other directories. ``deep``, ``chunk`` and ``contents`` check bytes and values, ``rows`` rows
that have an identity, ``duplicates`` finds a write that was uploaded twice, ``noted`` compares the
history with a digest that a person kept.

Example::

    report = verify(bucket, world, deep=True)
    print(report.version, len(report.errors))
"""

from __future__ import annotations

from blockstore.care.verify.noted import Noted
from blockstore.care.verify.table import verify

__all__ = ["Noted", "verify"]
