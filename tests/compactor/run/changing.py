"""Tables whose rows change and are merged, with an oracle of every version of every row; and what
must hold of their blocks whatever was merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.jobs import Candidate, PlannedJob, Reason
from blockstore.compactor.plan.observe import Observation, observe
from blockstore.compactor.run.execute import Executor
from blockstore.compactor.run.once import compact_once, merge_options
from blockstore.compactor.run.report import JobResult, Report
from blockstore.compactor.settings import Settings
from blockstore.format.block import BlockKind
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, ROW_ID, VERSION
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.rows.lake import BY_ID, BY_KEY, rows_of
from tests.support.faulty import FaultyBucket
from tests.support.versions import Oracle, Row

DAY_S = 86_400.0


@dataclass
class Changing:
    """A table in memory, with row ids or the key ``id``."""

    work_dir: Path
    row_ids: bool
    row_history: str = "forever"
    world: World = field(default_factory=lambda: World.manual(seed=1))
    bucket: MemoryBucket = None  # type: ignore[assignment]
    oracle: Oracle = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.oracle = Oracle(lambda row: row[self.identity])
        if self.bucket is None:
            self.bucket = MemoryBucket(self.world.clock)
            how: dict[str, Any] = {"row_ids": True} if self.row_ids else {"key": "id"}
            definition = Definition.create(
                BY_ID if self.row_ids else BY_KEY,
                sort_by=["n"],
                properties=Properties.parse({"row_history": self.row_history}),
                **how,
            )
            index_log.create(self.bucket, self.world, definition)

    @property
    def identity(self) -> str:
        return ROW_ID if self.row_ids else "id"

    def copy(self) -> Changing:
        """The same table in a bucket of its own."""
        bucket = MemoryBucket(self.world.clock)
        for found in self.bucket.list():
            bucket.put(found.key, self.bucket.get(found.key).data)
        made = Changing(self.work_dir, self.row_ids, self.row_history, self.world, bucket)
        made.oracle.versions = {one: dict(held) for one, held in self.oracle.versions.items()}
        return made

    def open(self, bucket: FaultyBucket | None = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world)

    # Changes.

    def put(self, rows: Iterable[tuple[int, int]]) -> None:
        """Make rows of these identities have these values of ``n``: new images, in one entry."""
        given = dict(rows)
        if self.row_ids:
            self.set({one: n for one, n in given.items() if one in self.oracle.current()})
            return
        made = [{"id": one, "name": "p", "n": n} for one, n in given.items()]
        self.oracle.put(self._version(self.open().upsert(rows_of(*made)).version), made)

    def insert(self, values: Iterable[int]) -> None:
        """Insert rows, with fresh identities."""
        table, made = self.open(), [{"name": "i", "n": n} for n in sorted(values)]
        if self.row_ids:
            first = table.log.state.next_row_id
            version = table.append(pa.Table.from_pylist(made, schema=BY_ID)).version
            for place, row in enumerate(made):
                self.oracle.put_at(self._version(version), first + place, row)
            return
        first = max((int(one) for one in self.oracle.versions), default=-1) + 1  # type: ignore[call-overload]
        rows = [{"id": first + place, **row} for place, row in enumerate(made)]
        self.oracle.put(self._version(table.insert(rows_of(*rows)).version), rows)

    def put_new(self, values: dict[int, int], fresh: Iterable[int]) -> None:
        """Of a table with row ids: new images of rows and new rows in one entry."""
        current, table = self.oracle.current(), self.open()
        there = {one: n for one, n in values.items() if one in current}
        rows = [{"_row_id": one, "name": "p", "n": n} for one, n in there.items()]
        fresh_rows = [
            {"_row_id": None, "name": f"new {place} of {table.log.state.version}", "n": n}
            for place, n in enumerate(fresh)
        ]
        if not rows and not fresh_rows:
            return
        schema, first = pa.schema([("_row_id", pa.int64()), *BY_ID]), table.log.state.next_row_id
        given = pa.Table.from_pylist([*rows, *fresh_rows], schema=schema)
        version = self._version(table.put_rows(given).version)
        scan = table.snapshot().scan(columns=["_row_id", "name"]).to_table().to_pylist()
        ids = {row["name"]: row["_row_id"] for row in scan}
        for row in (*rows, *fresh_rows):
            before = current.get(row["_row_id"])
            if before is not None and {**row, **before} == row:
                continue
            one = ids[row["name"]] if row["_row_id"] is None else row["_row_id"]
            assert row["_row_id"] is not None or first <= one < first + given.num_rows
            self.oracle.put_at(version, one, {"name": row["name"], "n": row["n"]})

    def set(self, cells: dict[int, int]) -> None:
        """Set ``n`` of rows that exist."""
        current = self.oracle.current()
        there = {one: n for one, n in cells.items() if one in current}
        did = self.open().set_cells([{self.identity: one, "n": n} for one, n in there.items()])
        for one, n in there.items():
            if n != current[one]["n"]:
                self.oracle.put_at(self._version(did.version), one, {**current[one], "n": n})

    def update(self, below: int) -> None:
        """Increase ``n`` where it is below a value."""
        hit = {one: row for one, row in self.oracle.current().items() if row["n"] < below}
        did = self.open().update({"n": lambda rows: pc.add(rows["n"], 1)}, where=f"n < {below}")
        for one, row in hit.items():
            self.oracle.put_at(self._version(did.version), one, {**row, "n": row["n"] + 1})

    def merge(self, values: dict[int, int]) -> None:
        """Of a table with a key: update, delete or insert, in one entry."""
        current = self.oracle.current()
        rows = [{"id": one, "name": "m", "n": n} for one, n in values.items()]
        did = (
            self.open()
            .merge(rows_of(*rows), on="id")
            .when_matched_delete(condition=pc.field("source.n") < 0)
            .when_matched_update({"n": "source.n"})
            .when_not_matched_insert()
            .execute()
        )
        version = self._version(did.version)
        for row in rows:
            there = current.get(row["id"])
            if there is None or row["n"] >= 0:
                self.oracle.put(version, [row if there is None else {**there, "n": row["n"]}])
            else:
                self.oracle.delete(version, [row["id"]])

    def delete(self, ones: Iterable[int]) -> None:
        """Delete rows by their identities, whether they exist or not."""
        table = self.open()
        named = [one for one in ones if not self.row_ids or one < table.log.state.next_row_id]
        if self.row_ids:
            gone = [one for one in named if one in self.oracle.current()]
        else:
            gone = named
        if named:
            did = table.delete_rows(named)
            if gone:
                self.oracle.delete(self._version(did.version), gone)

    # Merges.

    @property
    def settings(self) -> Settings:
        return Settings(tier_blocks=2, work_dir=self.work_dir)

    def executor(self, bucket: FaultyBucket | None = None) -> Executor:
        return Executor(
            table=self.open(bucket), engine=LocalEngine(), options=merge_options(self.settings)
        )

    def compact(self, bucket: FaultyBucket | None = None) -> Report:
        return compact_once(self.open(bucket), self.settings)

    def look(self) -> Observation:
        return observe(self.open())

    def run(self, job: PlannedJob, seen: Observation) -> JobResult:
        return self.executor().run(job, seen)

    # What must hold.

    def check(self) -> None:
        """Everything that a reader can see, and all that a verification would."""
        table = self.open()
        wanted = {
            one: {**row, self.identity: one, VERSION: self.oracle.version_of(one)}
            for one, row in self.oracle.current().items()
        }
        columns = [*dict.fromkeys((self.identity, *table.definition.schema.names, VERSION))]
        shown = table.snapshot().scan(columns=columns).to_table().to_pylist()
        assert len(shown) == len(wanted), "identities are unique in the current view"
        assert {row[self.identity]: row for row in shown} == wanted
        assert table.snapshot().count() == len(wanted)
        self._check_blocks(table)
        if self.row_history == "forever":
            self._check_history(table)

    def _check_history(self, table: Table) -> None:
        for one, versions in self.oracle.versions.items():
            kept = {row[VERSION]: row for row in table.row_history(one).to_pylist()}
            assert sorted(kept) == sorted(versions), f"all versions of {one!r} are kept"
            for version, row in versions.items():
                assert kept[version][DELETED] == (row is None)
                assert row is None or {name: kept[version][name] for name in row} == row
        pairs = [(one, at) for one, held in self.oracle.versions.items() for at in held]
        found = table.fetch(pairs).to_pylist() if pairs else []
        assert [(row[self.identity], row[VERSION]) for row in found] == pairs

    def _check_blocks(self, table: Table) -> None:
        seen: Counter[tuple[Hashable, int]] = Counter()
        newest: dict[Hashable, int] = {}
        plain: dict[Hashable, list[int]] = {}
        hiding: dict[Hashable, list[int]] = {}
        for block, rows in stored(table):
            for row in rows:
                one, version = row[self.identity], row[VERSION]
                seen[one, version] += 1
                above = block.meta.level > 1
                assert version < block.version if above else version == block.version
                if block.meta.kind is BlockKind.HISTORY:
                    continue
                newest[one] = max(newest.get(one, 0), version)
                (plain if block.meta.kind is BlockKind.PLAIN else hiding).setdefault(
                    one, []
                ).append(version)
                assert block.meta.kind is BlockKind.CHANGES or not row[DELETED]
        assert all(count == 1 for count in seen.values()), "a version is in one block"
        for one, versions in plain.items():
            assert len(versions) == 1, "plain rows hide none"
            assert versions[0] <= min(hiding.get(one, versions))
        for one, at in seen:
            assert at in self.oracle.versions[one]

    @staticmethod
    def _version(version: int | None) -> int:
        assert version is not None
        return version


def stored(table: Table) -> Iterator[tuple[Any, list[Row]]]:
    """The live blocks with all rows that they hold, hidden or not."""
    snapshot = table.snapshot().snapshot
    identity = snapshot.definition.identity
    assert identity is not None
    columns = [*dict.fromkeys((*identity.columns, VERSION))]
    plan = plan_scan(snapshot, columns=columns, every_version=True)
    for block in table.log.state.blocks:
        own = tuple(chunk for chunk in plan.chunks if chunk.block == block.ulid)
        rows = read_plan(table.bucket, replace(plan, chunks=own), table.world).read_all()
        yield block, rows.to_pylist()


def job_of(
    seen: Observation, kind: BlockKind, choose: Callable[[list[Candidate]], list[Candidate]]
) -> PlannedJob | None:
    """A job over some blocks of one kind, whatever the planner would say; None without any."""
    own = sorted((one for one in seen.candidates if one.kind is kind), key=lambda one: one.ulid)
    chosen = choose(own)
    if not chosen:
        return None
    rest = seen.shadows.rest_of(chosen[0].stream, kind, [one.ulid for one in chosen])
    return PlannedJob(
        reason=Reason.SIZE,
        details="chosen by a test",
        stream=chosen[0].stream,
        inputs=tuple(chosen),
        kind=rest.kind,
    )
