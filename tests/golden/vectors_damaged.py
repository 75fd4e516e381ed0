"""Small tables of which one thing is damaged, and what a reader must say."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.document import sealed
from blockstore.ids import Ids
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import Log
from blockstore.names import (
    BOUNDARY,
    HINT,
    LEAVES,
    checkpoint_key,
    entry_key,
    object_key,
    sources_path,
)
from blockstore.operations.tree import move_to_tree
from blockstore.table import Table
from blockstore.world import Serial, World
from tests.golden.oracle import Oracle
from tests.golden.vectors_indexed import rows, simple
from tests.support.put_back import copy_of, put_back


def base(seed: int, *, boundary: int = 0, in_leaves: bool = False) -> Oracle:
    """Four versions, of which the third has a checkpoint; what lies at or below the boundary is
    collected. ``in_leaves``: five, of which the second moves the table, and the fourth has one."""
    made = simple(seed)
    if in_leaves:
        move_to_tree(made.table.log, made.world)
        made.told["requires"] = ["chain/0.2", "tree/0.2"]
        made.note()
    made.append(rows(0, 2))
    made.append(rows(2, 4))
    log = Log(made.bucket, made.world)
    write_checkpoint(made.bucket, log.state, lambda: log.reader.leaves)
    made.append(rows(4, 6))
    if in_leaves:  # the root of the move
        made.bucket.delete([checkpoint_key(2)])
    if boundary:
        log.boundary.read()
        log.boundary.advance(boundary)
        made.bucket.delete([entry_key(number) for number in range(1, boundary + 1)])
    return made


def flip(made: Oracle, key: str, place: int, bit: int = 0) -> Oracle:
    """Turn one bit of an object."""
    data = bytearray(made.bucket.get(key).data)
    data[place] ^= 1 << bit
    made.bucket.put(key, bytes(data))
    return made


def footer(made: Oracle) -> Oracle:
    """A bit in the footer of the checkpoint: another next row id."""
    key = checkpoint_key(3)
    return flip(made, key, made.bucket.get(key).data.rindex(b'"next_row_id":') + 14)


def checkpoint_passed_over() -> Oracle:
    """A bit in the footer of a checkpoint, and all entries below it are there: nothing is lost."""
    made = footer(base(41))
    made.every()
    return made


def checkpoint_alone() -> Oracle:
    """A bit in the footer of the only checkpoint, and the entries below it are collected."""
    made = footer(base(42, boundary=3))
    made.refuse("corrupt")
    return made


def checkpoint_whole() -> Oracle:
    """The same table undamaged: what the boundary left can be read."""
    made = base(43, boundary=3)
    made.bucket.put(HINT, b"no hint at all")
    made.ask(4)
    made.ask(4, version=4)
    made.refuse("version-expired", version=3)
    return made


def leaf_damaged() -> Oracle:
    """A bit in a leaf that the only root names, and the entries below it are collected."""
    made = base(46, boundary=4, in_leaves=True)
    key = min(info.key for info in made.bucket.list(LEAVES))
    flip(made, key, len(made.bucket.get(key).data) // 2)
    made.refuse("corrupt")
    return made


def checkpoint_of_other_rows() -> Oracle:
    """A checkpoint packed anew, whole, with its JSON, in which one number of a row is another."""
    made = _repacked(44, {"first_row_id": 3})
    made.refuse("corrupt")
    return made


def checkpoint_repacked() -> Oracle:
    """A checkpoint packed anew with the same rows: its bytes fit no name, and its content proves
    it."""
    made = _repacked(45, {})
    made.ask(4)
    return made


def checkpoint_of_another_history() -> Oracle:
    """A checkpoint above the boundary that a writer left whose history was replaced."""
    made = base(46)
    before = copy_of(made.bucket)
    stale = World(clock=made.world.clock, ids=Ids.seeded(made.world.clock, 98), pool=Serial())
    log = Log(made.bucket, stale)
    Table(made.bucket, stale, log).append(pa.table({"id": [900], "name": ["stale"]}))
    write_checkpoint(made.bucket, log.state)
    left = made.bucket.get(checkpoint_key(5)).data
    put_back(made.bucket, before)
    made.append(rows(6, 8))
    made.bucket.put(checkpoint_key(5), left)
    made.append(rows(8, 10))
    made.every()
    return made


def entry_bit() -> Oracle:
    """A bit in an entry above the newest checkpoint."""
    made = flip(base(47), entry_key(4), 200)
    made.refuse("corrupt")
    return made


def entry_missing() -> Oracle:
    """An entry above the boundary is gone, and a later one is there."""
    made = base(48)
    made.append(rows(6, 8))
    made.bucket.delete([entry_key(4)])
    made.refuse("corrupt")
    return made


def entry_renamed() -> Oracle:
    """An entry under the name of the next one."""
    made = base(49)
    made.bucket.put(entry_key(5), made.bucket.get(entry_key(4)).data)
    made.refuse("corrupt")
    return made


def entry_contradicts() -> Oracle:
    """A whole entry, on top of the newest, that removes a block which is not live."""
    made = base(50)
    _entry(made, {"operation": "expire", "remove": [made.world.ids.ulid()]})
    made.refuse("corrupt")
    return made


def entry_newer() -> Oracle:
    """An entry of a later format."""
    made = base(51)
    _entry(made, {"format": 2, "operation": "append"})
    made.refuse("newer-format")
    return made


def entry_requires() -> Oracle:
    """An entry that requires a feature of a later release."""
    made = base(52)
    _entry(made, {"operation": "append", "requires": ["teleports/9.0"]})
    made.refuse("newer-format")
    return made


def entry_unknown_operation() -> Oracle:
    """An operation that nobody knows folds like the others; its writer's clock is behind, and time
    does not fall."""
    made = base(53)
    gone = next(iter(made.blocks))
    made.world.clock.advance(-60)
    _entry(made, {"operation": "evaporate", "remove": [gone], "wind": "west"})
    made.note(remove=[gone])
    made.every()
    return made


def boundary_letters() -> Oracle:
    """Other bytes than digits in the boundary."""
    return _boundary(54, b"3 or so")


def boundary_digit() -> Oracle:
    """One digit of the padded boundary is another."""
    made = base(55)
    return _boundary(55, made.bucket.get(BOUNDARY).data[:-1] + b"1")


def boundary_missing() -> Oracle:
    """Entries, and no boundary."""
    return _boundary(56, None)


def chunk_of_other_bytes() -> Oracle:
    """A chunk of the same size with another SHA-256."""
    made = base(57)
    block = next(iter(made.blocks))
    flip(made, object_key(block, "chunks/000001.parquet"), 20)
    made.refuse("corrupt")
    return made


def chunk_missing() -> Oracle:
    """A chunk is gone: never fewer rows."""
    made = base(58)
    made.bucket.delete([object_key(next(iter(made.blocks)), "chunks/000001.parquet")])
    made.refuse("missing")
    return made


def list_of_other_sources() -> Oracle:
    """A long list of sources in whose place another lies."""
    made = base(59)
    made.world.clock.sleep(1)
    sources = [f"01HF7{number:021d}" for number in range(1_001)]
    many = made.upload(
        [(sources[0], row) for row in rows(9, 10)], level=2, sources=sources, own=False
    )
    made.commit("rewrite", add=[many])  # type: ignore[arg-type]
    made.note(add=[many])
    sink = io.BytesIO()
    pq.write_table(pa.table({"source": [*sources[:-1], "01HF7ZZZZZZZZZZZZZZZZZZZZZ"]}), sink)
    made.bucket.put(object_key(many.ulid, sources_path()), sink.getvalue())
    made.refuse("corrupt")
    return made


def _boundary(seed: int, data: bytes | None) -> Oracle:
    made = base(seed)
    made.bucket.delete([BOUNDARY])
    if data is not None:
        made.bucket.put(BOUNDARY, data)
    made.refuse("boundary-lost")
    return made


def _entry(made: Oracle, fields: dict[str, Any]) -> None:
    """An entry on top of the newest, as another program would write it."""
    made.world.clock.sleep(1)
    entry = {
        "format": 1, "id": made.version + 1, "prev": made.last, "commit": made.world.ids.ulid(),
        "time": made.world.clock.now_ms(), **fields,
    }  # fmt: skip
    made.bucket.put(
        entry_key(made.version + 1), sealed(json.dumps(entry, separators=(",", ":")).encode())
    )


def _repacked(seed: int, changed: dict[str, int]) -> Oracle:
    made = base(seed, boundary=3)
    file = pq.ParquetFile(io.BytesIO(made.bucket.get(checkpoint_key(3)).data))
    table, told = file.read(), file.metadata.metadata
    for name, value in changed.items():
        place = table.schema.get_field_index(name)
        values = [*table[name].to_pylist()[:-1], value]
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    kept = {key: told[key] for key in (b"blockstore", b"blockstore.sha256")}
    assert hashlib.sha256(kept[b"blockstore"]).hexdigest().encode() == kept[b"blockstore.sha256"]
    sink = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata(kept), sink, compression="snappy", row_group_size=1
    )
    made.bucket.put(checkpoint_key(3), sink.getvalue())
    return made
