"""SQL over snapshots of several tables: parse, prune, place the files, run, stream.

Invariants:
- A query reads exactly the rows of the snapshots that the engine holds when the query starts.
- Which files are left out follows from ``conditions.py`` and ``blockstore.scan``: never one that matters.
- A query cannot reach past its tables: ``statement.py`` admits one SELECT, ``instance.py`` locks the engine.
- R11: whatever fails because of a file fails with its block's name.
- Batches are made as they are taken: memory does not grow with the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from blockstore.errors import BlockstoreError, Corrupt, Invalid
from blockstore.scan.candidates import streams_of
from blockstore.scan.chunk import HIDDEN
from blockstore.scan.columns import Columns
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from reader.cache import ChunkCache, default_folder
from reader.query.conditions import conditions
from reader.query.failures import may_be_damage, translated
from reader.query.files import Placed, local_folder, place
from reader.query.instance import Instance, Limits
from reader.query.statement import parse
from reader.query.views import view

__all__ = ["Answer", "Engine"]

_BATCH_ROWS = 65_536
_ENGINE_ERRORS = (duckdb.Error, pa.ArrowException, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A running query."""

    reader: pa.RecordBatchReader
    """The rows; when it is exhausted or dropped, the query's files and its connection are let go."""
    plans: Mapping[str, ScanPlan]
    """What is read of each table, and what was pruned."""
    cancel: Callable[[], None]
    """Stop the query, from any thread: its reader raises Unavailable."""


class Engine:
    """Answers SQL over a set of snapshots; safe to share between threads."""

    def __init__(
        self,
        tables: Mapping[str, TableSnapshot],
        *,
        world: World | None = None,
        cache: ChunkCache | None = None,
        limits: Limits | None = None,
        strict: bool = True,
    ) -> None:
        _check_names(tables)
        self.tables = dict(tables)
        self._world = world or World.real()
        self._cache = cache
        self._strict = strict
        self._lock = threading.Lock()
        self._instance = Instance(self._folders(), limits or Limits())

    def query(self, sql: str) -> pa.RecordBatchReader:
        """The answer as a stream of record batches. Raises Invalid, NotFound (a table), Corrupt (a block)."""
        return self.run(sql).reader

    def run(self, sql: str) -> Answer:
        """The answer with its plans, and the means to cancel it."""
        cursor = self._instance.cursor()
        placed: list[Placed] = []
        try:
            statement = parse(cursor, sql, self.tables)
            schemas = {name: _columns(self.tables[name]) for name in statement.tables}
            found = conditions(statement, schemas)
            hidden = [name for name in HIDDEN.names if name in statement.columns]
            plans: dict[str, ScanPlan] = {}
            for name in sorted(statement.tables):
                snapshot = self.tables[name]
                if self._strict:
                    _refuse_malformed(snapshot)
                plan = plans[name] = plan_scan(snapshot.snapshot, where=found[name])
                files = place(snapshot.bucket, plan.chunks, self._chunk_cache)
                placed.append(files)
                cursor.execute(view(name, plan, files.paths, hidden))
            stream = _relation(cursor, sql).to_arrow_reader(_BATCH_ROWS)
        except _ENGINE_ERRORS as error:
            raise _ended(error, cursor, placed) from error
        except BaseException:
            _release(cursor, placed)
            raise
        batches = _batches(stream, cursor, placed)
        next(batches)
        return Answer(
            reader=pa.RecordBatchReader.from_batches(stream.schema, batches),
            plans=plans,
            cancel=cursor.interrupt,
        )

    def close(self) -> None:
        """End the engine; running queries end with an error."""
        self._instance.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _folders(self) -> list[str]:
        """The folders that DuckDB may read: the tables' own, and the cache's where a table has none."""
        found = {local_folder(snapshot.bucket) for snapshot in self.tables.values()}
        folders = sorted(folder for folder in found if folder is not None)
        return [*folders, str(self._chunk_cache().held)] if None in found else folders

    def _chunk_cache(self) -> ChunkCache:
        with self._lock:
            if self._cache is None:
                self._cache = ChunkCache(default_folder(), self._world)
            return self._cache


def _columns(snapshot: TableSnapshot) -> pa.Schema:
    """Every column that a condition may name."""
    labels = {name for stream in streams_of(snapshot.snapshot) for name in stream}
    return Columns.of(snapshot.definition, labels).all


def _check_names(tables: Mapping[str, TableSnapshot]) -> None:
    seen: dict[str, str] = {}
    for name in tables:
        if not name:
            raise Invalid("a table has an empty name, expected one by which SQL can ask for it")
        twin = seen.setdefault(name.lower(), name)
        if twin is not name:
            raise Invalid(
                f"the tables {twin!r} and {name!r} have one name in SQL, expected names of their own"
            )


def _refuse_malformed(snapshot: TableSnapshot) -> None:
    if snapshot.snapshot.malformed:
        ulid, damage = next(iter(sorted(snapshot.snapshot.malformed.items())))
        raise Corrupt(
            f"block {ulid} of {snapshot.bucket.url} is malformed and may hold rows that no other block holds: {damage}; "
            "restore it from a copy, or query without strict"
        )


def _batches(
    stream: pa.RecordBatchReader, cursor: duckdb.DuckDBPyConnection, placed: list[Placed]
) -> Iterator[pa.RecordBatch]:
    """The stream, which lets the query's files go at its end. The first step yields nothing and is taken at once: only
    a generator that was started runs its ``finally`` when it is dropped."""
    try:
        yield None
        yield from stream
    except _ENGINE_ERRORS as error:
        raise _ended(error, cursor, placed) from error
    finally:
        stream.close()
        _release(cursor, placed)


def _relation(cursor: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """The bound query; an error of the binder says where in the SQL."""
    try:
        return cursor.sql(sql)
    except (duckdb.BinderException, duckdb.CatalogException):
        # A relation's errors lack the place; bound once more as a statement, the same error has it.
        cursor.execute(sql)
        raise


def _ended(error: BaseException, cursor: duckdb.DuckDBPyConnection, placed: list[Placed]) -> BlockstoreError:
    """Why the query ended, as an error of the tree; what it held is let go."""
    try:
        if may_be_damage(error):
            for files in placed:
                damage = files.damage()
                if damage is not None:
                    return damage
        return translated(error)
    finally:
        _release(cursor, placed)


def _release(cursor: duckdb.DuckDBPyConnection, placed: list[Placed]) -> None:
    cursor.close()
    for files in placed:
        files.release()
