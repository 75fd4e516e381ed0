"""``blockstore.shipper.json``: what a shipper has shipped from a folder, and where to.

Rules:
- It is replaced as a whole, atomically, after each block; a process that dies between a block and
  its line ships nothing twice: the bucket knows the block's sources.
- It carries the SHA-256 of its content. A damaged one is as good as none, and is told in the log:
  what it knew is asked of the bucket again.
- It is kept by table, so that one folder may serve two; and only about blocks that still lie in the
  folder.
- A newer version is refused, not overwritten.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import orjson

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import Corrupt, NewerFormat, ObjectMissing
from blockstore.format.document import Document, parse
from blockstore.format.features import FORMAT_VERSION, refuse_newer
from blockstore.index.state import State
from blockstore.names import SHIPPER_STATE, is_ulid, meta_key
from blockstore.world import World

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A block that is durable in the table."""

    stored_ulid: str
    """Its name there: another than here where its upload was refused and made again."""
    late: bool = False
    """It lies at or below the table's floor: a person decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperState:
    """Everything that was shipped: table to block to what became of it."""

    tables: Mapping[str, Mapping[str, Sent]] = field(default_factory=dict)

    def sent_to(self, table: str) -> Mapping[str, Sent]:
        """What lies in a table."""
        return self.tables.get(table, {})

    def with_sent(self, table: str, ulid: str, sent: Sent) -> ShipperState:
        """The state once a block is durable in a table."""
        return replace(self, tables={**self.tables, table: {**self.sent_to(table), ulid: sent}})

    def without(self, table: str, ulids: Collection[str]) -> ShipperState:
        """The state without these lines of a table."""
        kept = {ulid: sent for ulid, sent in self.sent_to(table).items() if ulid not in ulids}
        return replace(self, tables={**self.tables, table: kept}) if ulids else self

    def only(self, there: Collection[str]) -> ShipperState:
        """The state without blocks that are not in the folder any more."""
        kept = {
            table: {ulid: sent for ulid, sent in blocks.items() if ulid in there}
            for table, blocks in self.tables.items()
        }
        return replace(self, tables={table: blocks for table, blocks in kept.items() if blocks})


def load(folder: Bucket) -> ShipperState | None:
    """The folder's state;

    None where there is none, or none that can be believed. Raises NewerFormat.
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
        _logger.warning("%s: what was shipped is asked of the bucket again", error)
        return None


def save(folder: Bucket, state: ShipperState) -> None:
    """Replace the folder's state."""
    folder.put(SHIPPER_STATE, _encode(state))


def _encode(state: ShipperState) -> bytes:
    tables = {
        table: {ulid: _sent_json(sent) for ulid, sent in sorted(blocks.items())}
        for table, blocks in sorted(state.tables.items())
    }
    value = {"version": FORMAT_VERSION, "tables": tables}
    return orjson.dumps({**value, "sha256": _digest(tables)}, option=orjson.OPT_INDENT_2)


def _sent_json(sent: Sent) -> dict[str, object]:
    return {"as": sent.stored_ulid, **({"late": True} if sent.late else {})}


def _decode(data: bytes, subject: str) -> ShipperState:
    document = parse(data, subject)
    refuse_newer(document.integer("version", low=1), subject)
    listed = document.document("tables")
    tables = {table: _sent(listed.document(table)) for table in listed.names()}
    if document.text("sha256") != _digest(document.raw("tables")):
        document.fail("sha256", "that of the content: it was edited or cut")
    return ShipperState(tables=tables)


def _sent(blocks: Document) -> dict[str, Sent]:
    found = {}
    for ulid in blocks.names():
        if not is_ulid(ulid):
            blocks.fail(ulid, "a block's ULID as its name")
        sent = blocks.document(ulid)
        found[ulid] = Sent(stored_ulid=sent.ulid("as"), late=sent.flag("late", False))
    return found


def _digest(tables: object) -> str:
    return hashlib.sha256(orjson.dumps(tables, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLines:
    """The lines of one table, by block."""

    there: frozenset[str] = frozenset()
    """The table bears them out."""
    gone: frozenset[str] = frozenset()
    """It was asked for them and does not have them."""
    forgotten: frozenset[str] = frozenset()
    """An index may have known of them and forgotten: they lie at or below its floor."""


def check_lines(
    bucket: ReadBucket,
    world: World,
    lines: Mapping[str, Sent],
    sources_of: Callable[[str], tuple[str, ...]],
    state: State | None,
    *,
    removing: bool,
) -> CheckedLines:
    """Compare the lines with the table in ``bucket``; ``state`` is its index's. What the index
    accounts for costs no request, anything else a HEAD at most."""
    there: set[str] = set()
    forgotten: set[str] = set()
    asked: list[str] = []
    for ulid, sent in lines.items():
        if state is not None:
            # A level-1 block is its own source: its meta.json need not be read.
            sources = (ulid,) if ulid in state.accounted else sources_of(ulid)
            if len(state.accounted.held(sources)) == len(sources):
                there.add(ulid)
                continue
            if any(map(state.below_floor, (sent.stored_ulid, *sources))):
                forgotten.add(ulid)
        if (removing and not sent.late) or (state is not None and ulid not in forgotten):
            asked.append(ulid)
    lying = {
        ulid
        for ulid, lies in zip(
            asked,
            world.pool.map(lambda ulid: is_there(bucket, meta_key(lines[ulid].stored_ulid)), asked),
            strict=True,
        )
        if lies
    }
    return CheckedLines(
        there=frozenset(there | lying),
        gone=frozenset({*asked} - lying),
        forgotten=frozenset(forgotten),
    )
