"""From a judged draft to the entry that says it: ids, row ids, sources left out where the state
knows them. Pure."""

from __future__ import annotations

import functools
import hashlib
import platform
from dataclasses import replace

from blockstore.errors import Corrupt, Invalid
from blockstore.format.document import sealed
from blockstore.index.added import AddedBlock, SourcesFile
from blockstore.index.chain import REQUIRED
from blockstore.index.change import Change, Draft
from blockstore.index.checkpoint_name import NamedCheckpoint
from blockstore.index.entry import Entry, decode_entry, encode_entry
from blockstore.index.fold import derived_sources, fold
from blockstore.index.state import State


def assemble(
    state: State,
    change: Change,
    draft: Draft,
    *,
    time_ms: int,
    checkpoint: NamedCheckpoint | None,
    by: str,
) -> Entry:
    """The entry after ``state`` that says ``draft``; ``checkpoint`` is the newest one known, a hint
    for readers.

    It names the entry that the state ends with; the first entry that does so requires ``chain``
    (``chain.py``)."""
    removed = state.blocks.get_all(draft.remove)
    add = tuple(
        replace(
            block,
            sources=None
            if derived_sources(block.meta, removed) == block.meta.sources
            else block.meta.sources,
        )
        for block in draft.add
    )
    return Entry(
        id=state.version + 1,
        commit=change.commit,
        time=max(time_ms, state.time_ms),
        operation=change.operation,
        add=add,
        remove=draft.remove,
        excepts=draft.excepts,
        account=draft.account,
        keep=draft.keep,
        job=change.job,
        first_row_id=state.next_row_id if any(_takes_rows(block) for block in add) else None,
        role=change.role,
        epochs=draft.epochs,
        checkpoint=checkpoint,
        read_version=draft.read_version,
        parameters=draft.parameters,
        message=draft.message,
        table=draft.table,
        touched=draft.touched,
        tags=draft.tags,
        horizon=draft.horizon,
        floor=draft.floor,
        requires=draft.requires if REQUIRED in state.requires else (*draft.requires, REQUIRED),
        by=by,
        prev=state.last if state.last.commit else None,
    )


def _takes_rows(block: AddedBlock) -> bool:
    return block.first_row_id is None


def followed(state: State, entry: Entry, payload: bytes) -> State:
    """The state after an entry that was not sent yet, by the bytes that every reader will have to
    follow."""
    try:
        read = decode_entry(payload, entry_id=entry.id)
        loaded = tuple(
            mine if isinstance(block.sources, SourcesFile) else block
            for mine, block in zip(entry.add, read.add, strict=True)
        )
        return fold(state, replace(read, add=loaded))
    except Corrupt as error:
        raise Invalid(
            f"the {entry.operation} was not sent, because no reader could follow it: {error}"
        ) from error


def resent(payload: bytes, entry: int) -> bytes:
    """The payload for another try: the same entry in other bytes."""
    found = decode_entry(payload, entry_id=entry)
    return sealed(encode_entry(replace(found, sent=found.sent + 1)))


def relinked(before: State, after: State, payload: bytes) -> State:
    """The state ``after``, ending with the bytes that were created at last."""
    if after.last.sha256 == hashlib.sha256(payload).hexdigest():
        return after
    return replace(
        after, last=decode_entry(payload, entry_id=after.version).link_after(before.last)
    )


@functools.cache
def signature(program: str) -> str:
    """``host, program, version``: the writer of an entry."""
    from importlib import metadata

    try:
        version = metadata.version("blocklake")
    except metadata.PackageNotFoundError:
        version = "unreleased"
    return f"{platform.node()}, {program}, {version}"
