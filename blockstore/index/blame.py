"""Which entry changed a block, as a conflict names it in its message.

Only a message depends on it, so any error here gives "another operation".
"""

from __future__ import annotations

from blockstore.errors import BlockstoreError
from blockstore.index.entry import Entry, decode_entry
from blockstore.index.read import IndexReader
from blockstore.index.state import State

_PAGE = 64
_PAGES = 4


def who_changed(reader: IndexReader, state: State, ulid: str, since: int | None) -> str:
    """The newest entry after version ``since``, of the last few hundred, that removed the block or
    excepted from it."""
    try:
        last = state.version
        for _ in range(_PAGES):
            first = max(reader.boundary.seen, since or 0, last - _PAGE) + 1
            page = range(first, last + 1)
            for entry, data in reversed([*zip(page, reader.get_all(page), strict=True)]):
                found = (
                    None
                    if data is None or entry in state.void
                    else decode_entry(data, entry_id=entry)
                )
                if found is not None and (ulid in found.remove or ulid in found.excepts):
                    return _named(found)
            last = first - 1
    except BlockstoreError:
        pass
    return "another operation"


def _named(entry: Entry) -> str:
    by = f" by {entry.by}" if entry.by else ""
    return f"version {entry.id} ({entry.operation}{by})"
