"""The folder's state: what was shipped from it, where to, and whether the table still has it.

Rules of ``blockstore.shipper.json``:
- It is replaced as a whole, atomically, after each block. A process that dies between a block and
  its line ships nothing twice: the bucket knows the block's sources.
- It contains the SHA-256 of its content, twice: of its lines, and of all that follows its seal. A
  damaged one counts as none, with a warning in the log:
  the bucket is asked again for what it recorded.
- It is kept by table, so that one folder can serve two, and only about blocks that are still in the
  folder. A newer version is refused, not overwritten.
- It names the tables that had an index. Such a table is never taken for one without an index.

Rules for comparing it with the table, which may be lost or made again at the same URL:
- With an index a line is trusted if the table accounts for the block's sources, if it may have
  forgotten them (the block is at or below the floor), or if the table has the block. A line that is
  not trusted is dropped, and the block is shipped again. What was removed on purpose is accounted
  for, so nothing comes back.
- Without an index a line is only checked before a deletion. If the block is gone, the line is
  dropped where other blocks hold its rows. Otherwise a lost table cannot be distinguished from a
  block that a person removed: the line stays, and the block is reported.
- With an index only a block that it accounts for is deleted from the folder. One that waits for its
  discovery stays, and is late once the floor has overtaken it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import orjson

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import Corrupt, NewerFormat, ObjectMissing
from blockstore.format.document import Document, parse, sealed
from blockstore.format.features import FORMAT_VERSION, refuse_newer
from blockstore.index.state import State
from blockstore.names import SHIPPER_STATE, is_ulid, meta_key
from blockstore.world import World

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A block that is durable in the table."""

    stored_ulid: str
    """Its name there; a new one if its upload was refused and repeated, or if it was adopted."""
    late: bool = False
    """It is at or below the table's floor: a person decides."""
    waits: bool = False
    """It was left to discovery, and no index that was read since accounts for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperState:
    """Everything that was shipped, by table and by block."""

    tables: Mapping[str, Mapping[str, Sent]] = field(default_factory=dict)
    indexed: frozenset[str] = frozenset()
    """The tables that had an index when they were last read."""

    def sent_to(self, table: str) -> Mapping[str, Sent]:
        """Return what was shipped to a table."""
        return self.tables.get(table, {})

    def with_sent(self, table: str, ulid: str, sent: Sent) -> ShipperState:
        """Return the state with a block that is durable in a table."""
        return self.with_lines(table, {**self.sent_to(table), ulid: sent})

    def with_index(self, table: str) -> ShipperState:
        """Return the state that records a table's index."""
        return replace(self, indexed=self.indexed | {table})

    def without(self, table: str, ulids: Collection[str]) -> ShipperState:
        """Return the state without these lines of a table."""
        kept = {ulid: sent for ulid, sent in self.sent_to(table).items() if ulid not in ulids}
        return self.with_lines(table, kept) if ulids else self

    def only(self, there: Collection[str]) -> ShipperState:
        """Return the state without blocks that are no longer in the folder.

        A table stays without lines: the next block is for it too.
        """
        kept = {
            table: {ulid: sent for ulid, sent in blocks.items() if ulid in there}
            for table, blocks in self.tables.items()
        }
        return replace(self, tables=kept)

    def compared(self, table: str, checked: CheckedLines) -> ShipperState:
        """Return the state with what the index of a table says of its lines."""
        lines = dict(self.sent_to(table))
        for ulid, sent in lines.items():
            if ulid in checked.there and (sent.late or sent.waits):
                lines[ulid] = replace(sent, late=False, waits=False)
            elif ulid in checked.overtaken:
                lines[ulid] = replace(sent, late=True, waits=False)
        return self if lines == self.sent_to(table) else self.with_lines(table, lines)

    def with_lines(self, table: str, lines: Mapping[str, Sent]) -> ShipperState:
        """Return the state with these lines of a table."""
        return replace(self, tables={**self.tables, table: lines})

    def lacking(self, table: str, ulid: str) -> str | None:
        """Return another table that the folder serves and that has not confirmed this block."""
        for other, lines in self.tables.items():
            sent = lines.get(ulid)
            if other != table and (sent is None or sent.late or sent.waits):
                return other
        return None


def load(folder: Bucket) -> ShipperState | None:
    """Read the folder's state; None if there is none, or if it is damaged.

    Raises NewerFormat.
    """
    try:
        data = folder.get(SHIPPER_STATE).data
    except ObjectMissing:
        return None
    try:
        return _decode(data, f"{SHIPPER_STATE} of {folder.url}")
    except NewerFormat:
        raise
    except Corrupt as error:
        _logger.warning("%s: checking in the bucket what was shipped", error)
        return None


def save(folder: Bucket, state: ShipperState) -> None:
    """Replace the folder's state."""
    folder.put(SHIPPER_STATE, _encode(state))


def _encode(state: ShipperState) -> bytes:
    tables = {
        table: {ulid: _sent_json(sent) for ulid, sent in sorted(blocks.items())}
        for table, blocks in sorted(state.tables.items())
    }
    value: dict[str, object] = {"version": FORMAT_VERSION, "tables": tables}
    if state.indexed:
        value["indexed"] = sorted(state.indexed)
    value["sha256"] = _digest(tables)
    return sealed(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def _sent_json(sent: Sent) -> dict[str, object]:
    flags = {"late": sent.late, "waits": sent.waits}
    return {"as": sent.stored_ulid, **{name: True for name, value in flags.items() if value}}


def _decode(data: bytes, subject: str) -> ShipperState:
    document = parse(data, subject)
    refuse_newer(document.integer("version", low=1), subject)
    listed = document.document("tables")
    tables = {table: _sent(listed.document(table)) for table in listed.names()}
    if document.text("sha256") != _digest(document.raw("tables")):
        document.fail("sha256", "that of the content: it was edited or truncated")
    return ShipperState(tables=tables, indexed=frozenset(document.texts("indexed", ())))


def _sent(blocks: Document) -> dict[str, Sent]:
    found = {}
    for ulid in blocks.names():
        if not is_ulid(ulid):
            blocks.fail(ulid, "a block's ULID as its name")
        sent = blocks.document(ulid)
        found[ulid] = Sent(
            stored_ulid=sent.ulid("as"),
            late=sent.flag("late", False),
            waits=sent.flag("waits", False),
        )
    return found


def _digest(tables: object) -> str:
    return hashlib.sha256(orjson.dumps(tables, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLines:
    """The lines of one table, compared with it."""

    there: frozenset[str] = frozenset()
    """The table confirms them: its index accounts for them, or, without an index, it has them."""
    overtaken: frozenset[str] = frozenset()
    """The table has them, its index does not account for them, and they are at or below its floor:
    they are never discovered."""
    gone: frozenset[str] = frozenset()
    """The table was checked and does not have them."""
    forgotten: frozenset[str] = frozenset()
    """The index may have forgotten them: they are at or below its floor."""


def check_lines(
    bucket: ReadBucket,
    world: World,
    lines: Mapping[str, Sent],
    sources_of: Callable[[str], tuple[str, ...]],
    state: State | None,
    *,
    removing: bool,
) -> CheckedLines:
    """Compare the lines with the table in ``bucket``.

    What the index accounts for costs no request, anything else at most one HEAD.

    Args:
        bucket: the table.
        world: the threads for the requests.
        lines: what was shipped to it, by block.
        sources_of: returns the sources of a block of the folder.
        state: the state of the table's index; None if it has none.
        removing: whether confirmed blocks will be deleted from the folder.
    """
    there: set[str] = set()
    forgotten: set[str] = set()
    unknown: list[str] = []
    for ulid, sent in lines.items():
        if state is not None:
            # A level-1 block is its own source: its meta.json need not be read.
            sources = (ulid,) if ulid in state.accounted else sources_of(ulid)
            if sent.stored_ulid != ulid and sent.stored_ulid in state.accounted:
                # Adopted: a block that was only uploaded under another name keeps its source.
                there.add(ulid)
                continue
            if len(state.accounted.held(sources)) == len(sources):
                there.add(ulid)
                continue
            if any(map(state.below_floor, (sent.stored_ulid, *sources))):
                forgotten.add(ulid)
        unsure = state is not None and ulid not in forgotten
        if unsure or (not sent.late and (removing or sent.waits)):
            unknown.append(ulid)
    stored = {
        ulid
        for ulid, found in zip(
            unknown,
            world.pool.map(
                lambda ulid: is_there(bucket, meta_key(lines[ulid].stored_ulid)), unknown
            ),
            strict=True,
        )
        if found
    }
    return CheckedLines(
        there=frozenset(there | (stored if state is None else set())),
        overtaken=frozenset(stored & forgotten),
        gone=frozenset({*unknown} - stored),
        forgotten=frozenset(forgotten),
    )
