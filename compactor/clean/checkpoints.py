"""Missing checkpoints: a committer writes one after every 64th entry, or less often where they are
large, and may die or fail before it.

Without them a cold read of a table costs one request per entry. Any process may write one from a
checked state; the compactor does so from time to time.
"""

from __future__ import annotations

from blockstore.bucket.api import writable
from blockstore.index.checkpoint_name import every
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import Log
from blockstore.names import CHECKPOINTS, parse_checkpoint


def catch_up(log: Log) -> int | None:
    """Write a checkpoint of the newest version if the last one is as many entries old as lie
    between two, or more; return its version, or None."""
    bucket = writable(log.bucket)
    state = log.poll()
    listed = (parse_checkpoint(info.key) for info in bucket.list(CHECKPOINTS, recursive=False))
    newest = max((version for version in listed if version is not None), default=0)
    if state.version - newest < every(len(state.blocks)):
        return None
    write_checkpoint(bucket, state, lambda: log.reader.leaves)
    return state.version
