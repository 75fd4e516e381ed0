"""The process of ``feed_killing.py``: follows a table, and applies each version to a copy once.

``python -m tests.end_to_end.feed_follower SOURCE COPY UNTIL`` ends once the copy has version UNTIL.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import blockstore as bs

APP = "follower"
COPY = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("changes", pa.int64())])
"""``n`` is null for a row that was deleted; ``changes`` is how many were told of the row."""
STEP = 17
"""At most so many versions are applied at once."""


def reached(copy: bs.Table) -> int:
    """The version of the source that the copy has."""
    copy.poll()
    last = [one.job.batch for one in copy.history() if one.job is not None and one.job.app == APP]
    return max(last, default=0)


def apply(source: bs.Table, copy: bs.Table, after: int, until: int) -> None:
    """Apply the changes of some versions, all or none."""
    shown = copy.snapshot().scan(columns=COPY.names).to_table().to_pylist()
    rows = {row["id"]: row for row in shown}
    touched = {}
    for change in source.changes(after, until).to_table().to_pylist():
        one = change["id"]
        before = rows.get(one, {"n": None, "changes": 0})
        was_there = before["n"] is not None
        assert was_there == (change["_change"] != "insert"), "kinds follow what was there"
        n = None if change["_change"] == "delete" else change["n"]
        rows[one] = touched[one] = {"id": one, "n": n, "changes": before["changes"] + 1}
    data = pa.Table.from_pylist(list(touched.values()), schema=COPY)
    copy.upsert(data, job=bs.Job(app=APP, batch=until))


def main(source_url: str, copy_url: str, end: int) -> None:
    source, copy = bs.open(source_url), bs.open(copy_url)
    after = reached(copy)
    while after < end:
        newest = source.poll()
        if newest == after:
            source.world.clock.sleep(0.02)
            continue
        until = min(after + STEP, newest)
        apply(source, copy, after, until)
        after = until


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
