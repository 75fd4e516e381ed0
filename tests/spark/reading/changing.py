"""Tables whose rows change, in a folder, and what Spark must read of them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa

import blockstore as bs
from blockstore.compactor.run.change import Compact
from blockstore.format import BlockWriter, Parent, VisibleBy, block_meta
from blockstore.format.block import BlockKind
from blockstore.lifecycle.upload import finish_upload
from blockstore.scan.plan import carried
from blockstore.table import Table

BY_KEY = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
BY_ID = pa.schema([("name", pa.string()), ("n", pa.int64())])
GROUP_ROWS = 40


def keyed(url: str, **more: Any) -> Table:
    return bs.create(url, schema=BY_KEY, key="id", sort_by=["name"], **more)


def numbered(url: str, **more: Any) -> Table:
    return bs.create(url, schema=BY_ID, row_ids=True, sort_by=["n"], **more)


def key_rows(ids: Iterable[int], n: int = 0) -> pa.Table:
    rows = [{"id": one, "name": f"{one * 7 % 10}-{n}", "n": n + one} for one in ids]
    return pa.Table.from_pylist(rows, schema=BY_KEY)


def id_rows(count: int, n: int = 0) -> pa.Table:
    rows = [{"name": f"{one}-{n}", "n": n + one} for one in range(count)]
    return pa.Table.from_pylist(rows, schema=BY_ID)


def change_keyed(table: Table, random: Random) -> None:
    """One random change of a table with a key. An update is of one stream's rows."""
    ids = random.sample(range(30), random.randint(1, 12))
    what = random.choice(("upsert", "upsert", "delete", "update", "other stream"))
    if what == "update" and "site" in table.snapshot().snapshot.label_names:
        what = "upsert"
    if what == "upsert":
        table.upsert(key_rows(ids, random.randint(0, 9)))
    elif what == "delete":
        table.delete_rows(ids[:4])
    elif what == "update":
        table.update({"n": -1}, where=f"n > {random.randint(0, 30)}")
    else:
        table.upsert(key_rows(ids, 50), labels={"site": "y"})


def change_numbered(table: Table, random: Random) -> None:
    """One random change of a table with row ids."""
    given = table.log.state.next_row_id
    what = random.choice(("append", "delete", "update", "put")) if given else "append"
    if what == "append":
        table.append(id_rows(random.randint(1, 12), random.randint(0, 9)))
    elif what == "delete":
        table.delete_rows(random.sample(range(given), min(given, 3)))
    elif what == "update":
        table.update({"name": "u"}, where=f"n > {random.randint(0, 12)}")
    else:
        rows = pa.table({"_row_id": pa.nulls(2, pa.int64()), "name": ["p", "q"], "n": [1, 2]})
        table.put_rows(rows)


def merge_all(table: Table) -> None:
    """Merge all live blocks of one kind into one of level 2, whose rows carry what the index said
    of them: as many row groups as there are ``GROUP_ROWS``."""
    state = table.log.state
    identity = table.definition.identity
    (kind,) = {block.meta.kind for block in state.blocks}
    ulid = table.world.ids.ulid()
    probe = block_of(table, ulid, kind)
    extra = carried(probe, identity)
    columns = [*table.definition.schema.names, *(name for name in extra if name != "_deleted")]
    rows = table.snapshot().scan(columns=columns).to_table()
    if "_deleted" in extra:
        rows = rows.append_column("_deleted", pa.repeat(pa.scalar(False), rows.num_rows))
    writer = BlockWriter(
        table.bucket, table.world, ulid, table.definition, producer="test",
        extra_columns=extra, row_group_rows=GROUP_ROWS,
    )  # fmt: skip
    writer.write(rows)
    read = {block.meta.ulid: block.excepted for block in state.blocks}
    live = [block.meta for block in state.blocks]
    parents = tuple(
        Parent(ulid=one.ulid, min_time=one.min_time, max_time=one.max_time) for one in live
    )
    meta = block_meta(
        writer.finish_block(), ulid=ulid, definition=table.definition, level=2, kind=kind,
        visible_by=VisibleBy.INDEX, producer="test", own=False, sources=tuple(sorted(read)),
        parents=parents,
    )  # fmt: skip
    table.log.commit(
        Compact(
            commit=table.world.ids.ulid(),
            block=finish_upload(table.bucket, table.world, meta),
            read=read,
            read_version=state.version,
            identity=identity,
        )
    )


def block_of(table: Table, ulid: str, kind: BlockKind) -> Any:
    """An empty block of level 2, to ask what its chunks carry."""
    from blockstore.format import WrittenChunks

    nothing = WrittenChunks(files=(), rows=0, bytes=0, min_time=0, max_time=1)
    return block_meta(
        nothing, ulid=ulid, definition=table.definition, level=2, kind=kind,
        visible_by=VisibleBy.INDEX, producer="test",
    )  # fmt: skip
