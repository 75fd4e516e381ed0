"""A table that is made operation by operation, and beside it, in plain lists and dictionaries, what
each of its versions holds.

Nothing of what is expected is read back from the table: rows are those that were put in, positions
are counted, sets are kept. From the stored bytes come only the commit ids that were drawn, the
order of an entry's blocks, and hashes, taken here anew.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block import BlockMeta, Job, Parent, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.document import sealed
from blockstore.format.meta import encode
from blockstore.format.new_block import block_meta, write_segments
from blockstore.format.properties import Properties
from blockstore.format.sources import write_sources
from blockstore.index.added import AddedBlock
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Operation
from blockstore.index.log import Log, create
from blockstore.names import entry_key, meta_key
from blockstore.table import Table
from blockstore.world import World
from tests.golden.plain import array_of, sorted_rows
from tests.support.segments import segments_everywhere

__all__ = ["Block", "Oracle", "Planned", "Row", "told_sources"]

Row = dict[str, Any]
Columns = Sequence[tuple[str, pa.DataType, int]]
"""Name, type, and the id that it must get."""


@dataclass
class Block:
    """A block as whoever wrote it knows it;

    ``rows`` are in the order of its chunks, each with its source.
    """

    ulid: str
    rows: list[tuple[str, Row]]
    sources: list[str]
    level: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None
    first_row_id: int | None = None
    excepted: set[str] = field(default_factory=set)
    meta: BlockMeta | None = None

    def shown(
        self, columns: Columns, labels: Iterable[str], only: Iterable[str] | None = None
    ) -> list[Row]:
        """The rows that are read of it."""
        first = self.first_row_id if self.level == 1 else None
        found = []
        for place, (source, row) in enumerate(self.rows):
            if source in self.excepted or (only is not None and source not in only):
                continue
            hidden = {
                "_source": source,
                "_row_id": None if first is None else first + place,
                "_version": self.version if self.level == 1 else None,
            }
            told = {name: row.get(name) for name, _, _ in columns}
            found.append(told | {name: self.labels.get(name) for name in labels} | hidden)
        return found


@dataclass(kw_only=True)
class Planned(Change):
    """A change whose draft is known."""

    operation: Operation
    commit: str
    plan: Draft
    job: Job | None = None

    def draft(self, state: object) -> Draft:
        return self.plan


class Oracle:
    """One table of memory, and what is known of it."""

    def __init__(
        self,
        seed: int,
        columns: Columns,
        *,
        time_column: str | None = None,
        sort_by: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        properties: Mapping[str, object] | None = None,
        row_ids: bool = False,
        key: Sequence[str] = (),
        indexed: bool = True,
    ) -> None:
        self.world = World.manual(seed=seed)
        self.bucket = MemoryBucket(self.world.clock)
        self.columns = list(columns)
        self.asks: list[dict[str, Any]] = []
        self.definition = Definition.create(
            pa.schema([pa.field(name, kind) for name, kind, _ in columns]),
            time_column=time_column,
            sort_by=sort_by,
            labels=labels,
            row_ids=row_ids,
            key=key,
            properties=Properties.parse(properties or {}),
        )
        self.labels = dict(labels or {})
        self.blocks: dict[str, Block] = {}
        self.everything: dict[str, Block] = {}
        """Also those that are live no more."""
        self.told: dict[str, Any] = {
            "tags": {},
            "epochs": {},
            "batches": {},
            "horizon": None,
            "floor": None,
            "next_row_id": 0,
            "void": [],
            "requires": ["chain/0.2"],
        }
        self.accounted: set[str] = set()
        self.version = 0
        self.time = 0
        self.last: dict[str, str] = {}
        self.states: dict[int, dict[str, Any]] = {}
        if indexed:
            self.log = create(self.bucket, self.world, self.definition)
            self.note()

    @property
    def table(self) -> Table:
        """A handle on the table, opened now."""
        return Table(self.bucket, self.world, Log(self.bucket, self.world))

    def upload(
        self,
        rows: Sequence[Row] | Sequence[tuple[str, Row]],
        *,
        level: int = 1,
        sources: Sequence[str] | None = None,
        visible: str = "index",
        split: bool = False,
        labels: Mapping[str, str] | None = None,
        segments: bool = False,
        **said: Any,
    ) -> Block:
        """Make a block; rows of level 2 and more come with their sources.

        ``split``: each row in a chunk of its own. ``segments``: with the hashes of its segments.
        """
        ulid = self.world.ids.ulid()
        held = [one if isinstance(one, tuple) else ((sources or [ulid])[0], one) for one in rows]
        own = labels if labels is not None else self.labels
        extra = ("_source",) if level > 1 else ()
        size = 1 if split else 2**26
        writer = BlockWriter(
            self.bucket,
            self.world,
            ulid,
            self.definition,
            producer="vector",
            extra_columns=extra,
            buffer_bytes=size,
        )
        with writer:
            if held:
                writer.write(self._arrow(held, with_source=level > 1))
            written = writer.finish()
        with segments_everywhere():
            hashes = write_segments(self.bucket, ulid, written) if segments else None
        listed = sorted(sources or [ulid])
        meta = block_meta(
            written,
            ulid=ulid,
            definition=self.definition,
            producer="vector",
            level=level,
            sources=tuple(listed),
            visible_by=VisibleBy(visible),
            labels=own,
            uploaded_time=said.pop("uploaded_time", self.world.clock.now_ms()),
            sources_file=write_sources(self.bucket, ulid, listed),
            segments=hashes,
            **said,
        )
        self.bucket.put(meta_key(ulid), sealed(encode(meta)))
        return Block(ulid, held, listed, level, own, meta=meta)

    def append(self, rows: Sequence[Row], *, job: Job | None = None, **said: Any) -> Block:
        """Publish a write."""
        self.world.clock.sleep(1)
        block = self.upload(rows, job=job, **said)
        self.commit(Operation.APPEND, add=[block], job=job)
        if job is not None:
            self.told["batches"].setdefault(job.app, []).append(job.batch)
        self.note(add=[block])
        return block

    def merged(self, *blocks: Block, own: Sequence[Row] = (), **said: Any) -> Block:
        """A block of what is shown of others, not published yet."""
        rows = [
            (source, row)
            for block in blocks
            for source, row in block.rows
            if source not in block.excepted
        ]
        sources = {source for block in blocks for source in block.sources}
        parents = tuple(
            Parent(ulid=one.ulid, min_time=one.meta.min_time, max_time=one.meta.max_time)
            for one in blocks
            if one.meta
        )
        return self.upload(
            rows, level=2, sources=sorted(sources), parents=parents, own=False, **said
        )

    def compact(self, *blocks: Block) -> Block:
        """Put a merge in the place of blocks."""
        self.world.clock.sleep(1)
        made = self.merged(*blocks)
        gone = [block.ulid for block in blocks]
        self.commit(Operation.COMPACT, add=[made], remove=tuple(gone))
        self.note(add=[made], remove=gone)
        return made

    def commit(
        self,
        operation: Operation,
        *,
        add: Iterable[Block] = (),
        job: Job | None = None,
        **plan: Any,
    ) -> None:
        """Commit what is known."""
        added = tuple(AddedBlock(meta=block.meta) for block in add if block.meta is not None)
        log = Log(self.bucket, self.world)
        commit = self.world.ids.ulid()
        log.commit(
            Planned(operation=operation, commit=commit, plan=Draft(add=added, **plan), job=job)
        )

    def note(
        self,
        *,
        add: Iterable[Block] = (),
        remove: Iterable[str] = (),
        void: bool = False,
        keep: Iterable[str] = (),
    ) -> None:
        """Take note of the entry that was written last: blocks without a version of their own are
        the entry's."""
        self.version += 1
        entry = self.entry(self.version)
        self._link(entry)
        if void:
            self.told["void"].append(self.version)
        else:
            self.time = max(self.time, self.world.clock.now_ms())
            for ulid in remove:
                del self.blocks[ulid]
            known = {block.ulid: block for block in add}
            for ulid in [one["ulid"] for one in entry.get("add", [])]:
                self._take_in(known.pop(ulid))
            assert not known, "every block is in the entry"
        if keep or entry.get("floor"):
            live = {source for block in self.blocks.values() for source in block.sources}
            floor = self.told["floor"]
            self.accounted = {one for one in self.accounted if one > floor or one in {*keep, *live}}
        self.states[self.version] = {"state": self.state(), "rows": self.rows()}

    def entry(self, version: int) -> dict[str, Any]:
        """An entry as plain JSON."""
        found: dict[str, Any] = json.loads(self.bucket.get(entry_key(version)).data)
        return found

    def state(self) -> dict[str, Any]:
        """The state, as the vectors hold it."""
        live = {source for block in self.blocks.values() for source in block.sources}
        told = copy.deepcopy(self.told) | {
            "batches": {
                app: _ranges(app, batches) for app, batches in sorted(self.told["batches"].items())
            }
        }
        return {
            "version": self.version,
            "time": self.time,
            **self.about(),
            "labels": self.labels,
            "blocks": [
                {
                    "ulid": one.ulid,
                    "level": one.level,
                    "version": one.version,
                    "first_row_id": one.first_row_id,
                    "sources": told_sources(one.sources),
                    "excepted": sorted(one.excepted),
                }
                for one in sorted(self.blocks.values(), key=lambda one: one.ulid)
            ],
            "accounted": told_sources(sorted(self.accounted - live)),
            **told,
            "last": dict(self.last),
        }

    def about(self) -> dict[str, Any]:
        """What the table is."""
        return {
            "columns": [[name, str(kind), own] for name, kind, own in self.columns],
            "time_column": self.definition.time_column,
            "sort_by": list(self.definition.sort_by),
        }

    def rows(self) -> list[Row]:
        """The rows that are shown."""
        taken = {name.lower() for name, _, _ in self.columns}
        borne = {*self.labels, *(name for block in self.blocks.values() for name in block.labels)}
        labels = [name for name in sorted(borne) if name.lower() not in taken]
        return sorted_rows(
            row for one in self.blocks.values() for row in one.shown(self.columns, labels)
        )

    def ask(self, version: int, /, **question: Any) -> None:
        """A question whose answer is that version's."""
        self.asks.append({"ask": question, **copy.deepcopy(self.states[version])})

    def refuse(self, error: str, **question: Any) -> None:
        """A question that is refused."""
        self.asks.append({"ask": question, "error": error})

    def every(self) -> None:
        """Ask for each version by its number, and for the latest."""
        for version in sorted(self.states):
            self.ask(version, version=version)
        self.ask(self.version)

    def _take_in(self, block: Block) -> None:
        if block.version is None:
            block.version, block.first_row_id = self.version, self.told["next_row_id"]
            self.told["next_row_id"] += len(block.rows)
        self.blocks[block.ulid] = self.everything[block.ulid] = block
        self.accounted.update(block.sources)

    def _link(self, entry: Mapping[str, Any]) -> None:
        chained = (
            "chain" in self.last or "prev" in entry or "chain/0.2" in entry.get("requires", [])
        )
        raw = hashlib.sha256(self.bucket.get(entry_key(self.version)).data)
        before = bytes.fromhex(self.last.get("chain", "00" * 32))
        self.last = {"commit": entry["commit"]}
        if chained:
            chain = hashlib.sha256(before + raw.digest()).hexdigest()
            self.last |= {"sha256": raw.hexdigest(), "chain": chain}

    def _arrow(self, held: Sequence[tuple[str, Row]], *, with_source: bool) -> pa.Table:
        schema = self.definition.schema
        made = {
            one.name: array_of([row.get(one.name) for _, row in held], one.type) for one in schema
        }
        if with_source:
            made["_source"] = pa.array([source for source, _ in held], pa.string())
        return pa.table(made)


def told_sources(sources: Sequence[str]) -> object:
    """A list of sources as the vectors hold it: of a long one its number and hash."""
    if len(sources) <= 1_000:
        return list(sources)
    return {
        "count": len(sources),
        "sha256": hashlib.sha256("\n".join(sources).encode()).hexdigest(),
    }


def _ranges(app: str, batches: Sequence[int]) -> list[list[int]]:
    if app.startswith("stream/"):
        return [[0, max(batches)]]
    found: list[list[int]] = []
    for batch in sorted(batches):
        if found and found[-1][1] == batch - 1:
            found[-1][1] = batch
        else:
            found.append([batch, batch])
    return found
