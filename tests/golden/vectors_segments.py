"""A table with the hashes of its blocks' segments, some of them lost."""

from __future__ import annotations

import random
from string import ascii_letters, digits

from tests.golden.oracle import Oracle
from tests.golden.vectors_damaged import flip
from tests.golden.vectors_indexed import rows, simple
from tests.support.segments import segments_key

_ALPHABET = ascii_letters + digits + "+-"


def right_and_lost() -> Oracle:
    """Four blocks with the hashes of their segments: of a chunk of two segments, of several chunks,
    and two whose hashes are lost, one object missing and one with a bit turned. A reader reads all
    rows."""
    made = simple(61)
    drawn = random.Random(61)
    long = [{"id": id_, "name": "".join(drawn.choices(_ALPHABET, k=9_000))} for id_ in range(10)]
    made.append(long, segments=True)
    made.append(rows(10, 13), segments=True, split=True)
    missing = made.append(rows(13, 16), segments=True)
    turned = made.append(rows(16, 19), segments=True)
    assert missing.meta is not None
    assert turned.meta is not None
    made.bucket.delete([segments_key(missing.meta)])
    flip(made, segments_key(turned.meta), -1)
    made.ask(made.version)
    return made
