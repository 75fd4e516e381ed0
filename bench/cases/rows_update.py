"""Rows that change: updates by key, and what queries cost after them.

The query is compared with raw DuckDB over the files that the table had before the updates, in the
same process and in turn with it, and the least of several rounds counts: so a ratio holds on a
machine with other work too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.append16 import Act, figures_of, race
from bench.peers.api import Handle, Unsupported

__all__ = ["ROWS_POINT", "ROWS_UPDATE", "ROWS_UPDATE16"]

WARM = 2


def prepare(task: Task) -> None:
    """``blocks`` writes of ``rows`` rows, by key."""
    handle = task.peer.create_keyed(task.directory, inputs.SCHEMA, "id")
    handle.ingest(inputs.ordered(task.sizes["blocks"], task.sizes["rows"], task.seed))
    handle.close()


def changes(task: Task) -> Iterator[pa.Table]:
    """Scattered rows of the table with new values, again and again."""
    draw = np.random.default_rng(task.seed)
    total = task.sizes["blocks"] * task.sizes["rows"]
    while True:
        ids = np.sort(draw.choice(total, task.sizes["changed"], replace=False))
        yield inputs.of_ids(ids, draw)


def update(task: Task) -> Figures:
    """Updates of ``changed`` scattered rows, each one commit; then the queries, of ours alone."""
    handle = task.peer.open(task.directory)
    new = changes(task)
    rounds = task.sizes["rounds"]
    for _ in range(WARM):
        handle.upsert(next(new), "id")
    before = _bytes(task.directory)
    spent = [_seconds(lambda rows=rows: handle.upsert(rows, "id")) for rows in _some(new, rounds)]
    written = (_bytes(task.directory) - before) / rounds
    figures = {"update_ms": min(spent) * 1_000, "written_mb": written / 1e6}
    if (total := task.sizes["blocks"] * task.sizes["rows"]) != (found := handle.count()):
        raise ValueError(f"{task.peer.name} has {found} rows after updates, expected {total}")
    try:
        files = handle.files()
    except Unsupported:
        return figures
    figures["unmerged_ratio"] = _ratio(handle, files, total)
    for rows in _some(new, task.sizes["updates"] - rounds - WARM):
        handle.upsert(rows, "id")
    handle.merge()
    figures["hundred_ratio"] = _ratio(handle, files, total)
    figures["merged_ratio"] = _ratio(handle, handle.merge_old(), total)
    handle.close()
    return figures


def point(task: Task) -> Figures:
    """One row by its key, warm; and what it takes of the processors, which other work on the
    machine changes less."""
    draw = np.random.default_rng(task.seed)
    handle = task.peer.open(task.directory)
    handle.ready()
    total = task.sizes["blocks"] * task.sizes["rows"]

    def one() -> None:
        key = int(draw.integers(total))
        if (found := handle.row(key)) != 1:
            raise ValueError(f"{task.peer.name} found {found} rows with id {key}, expected 1")

    for _ in range(20):
        one()
    busy = time.process_time()
    spent = sorted(_seconds(one) for _ in range(task.sizes["lookups"]))
    busy = time.process_time() - busy
    handle.close()
    return {
        "lookup_ms": spent[len(spent) // 2] * 1_000,
        "least_ms": spent[0] * 1_000,
        "cpu_ms": busy / len(spent) * 1_000,
    }


def at_once(task: Task) -> Figures:
    """Updates by each of ``processes`` of rows of its own, in one table: by a condition, and by key
    with all cells. The rates are compared with that of as many appends to another table."""
    figures = _changed_at_once(task, _updates)
    by_key = _changed_at_once(_within(task, "by_key"), _upserts)
    other = _within(task, "appended")
    task.peer.create(other.directory, inputs.SCHEMA, ["id"]).close()
    appended = figures_of(race(other, _appends))["commits_per_s"]
    return {
        **figures,
        "of_appends": figures["commits_per_s"] / appended,
        "by_key_of_appends": by_key["commits_per_s"] / appended,
        "by_key_refused_percent": by_key["refused_percent"],
    }


def _changed_at_once(task: Task, act: Act) -> Figures:
    rows = task.sizes["processes"] * task.sizes["rows"]
    handle = task.peer.create_keyed(task.directory, inputs.SCHEMA, "id")
    handle.ingest(inputs.ordered(1, rows, task.seed))
    handle.close()
    figures = figures_of(race(task, act))
    handle = task.peer.open(task.directory)
    if (found := handle.count()) != rows:
        raise ValueError(f"{task.peer.name} has {found} rows after updates, expected as before")
    handle.close()
    return figures


def _within(task: Task, name: str) -> Task:
    """The same in a folder of its own."""
    other = replace(task, directory=task.directory / name)
    other.directory.mkdir()
    return other


def _upserts(handle: Handle, task: Task, number: int) -> Callable[[int], None]:
    ids = np.arange(number * task.sizes["rows"], (number + 1) * task.sizes["rows"])
    draw = np.random.default_rng(task.seed)
    new = [inputs.of_ids(ids, draw) for _ in range(5)]
    return lambda turn: handle.upsert(new[turn % len(new)], "id")


def _updates(handle: Handle, task: Task, number: int) -> Callable[[int], None]:
    rows = task.sizes["rows"]
    first = number * rows
    return lambda turn: handle.set_value(first, first + rows - 1, float(turn))


def _appends(handle: Handle, task: Task, _: int) -> Callable[[int], None]:
    tables = inputs.small(5, task.sizes["rows"], task.seed)
    return lambda turn: handle.append(tables[turn % len(tables)])


def _ratio(handle: Handle, files: Sequence[Path], total: int) -> float:
    """The group-by of a contestant over that of DuckDB on plain files, in turn."""
    import duckdb

    connection = duckdb.connect()
    listed = f"read_parquet({[str(path) for path in files]!r})"
    raw, own = [], []
    for shift in range(7):
        sql = f"SELECT origin, count(*), sum(value + {shift}) FROM {listed} GROUP BY origin"
        raw.append(_seconds(lambda sql=sql: connection.sql(sql).fetchall()))
        started = time.perf_counter()
        groups = handle.group_by(shift)
        own.append(time.perf_counter() - started)
        if sum(groups.values()) != total:
            raise ValueError(f"the groups have {sum(groups.values())} rows, expected {total}")
    connection.close()
    return min(own[1:]) / min(raw[1:])


def _some(tables: Iterator[pa.Table], count: int) -> list[pa.Table]:
    return [next(tables) for _ in range(count)]


def _seconds(call: object) -> float:
    assert callable(call)
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


ROWS_UPDATE = Case(
    name="rows_update",
    sentence="update 10,000 scattered rows of 5 M by key, the least of 5; the group-by over all "
    "rows after it, after 100 such updates and a compactor's pass, and once all is old and merged, "
    "against raw DuckDB",
    peers=("ours", "lance", "delta", "iceberg"),
    metrics=(
        Metric(name="update_ms", unit="ms", title="update", higher_is_better=False),
        Metric(name="written_mb", unit="MB", title="written", higher_is_better=False, digits=2),
        Metric(name="unmerged_ratio", unit="x", title="group-by", higher_is_better=False, digits=2),
        Metric(name="hundred_ratio", unit="x", title="after 100", higher_is_better=False, digits=2),
        Metric(name="merged_ratio", unit="x", title="merged", higher_is_better=False, digits=2),
    ),
    sizes={
        Scale.FULL: {
            "blocks": 5,
            "rows": 1_000_000,
            "changed": 10_000,
            "rounds": 5,
            "updates": 100,
        },
        Scale.QUICK: {"blocks": 2, "rows": 500_000, "changed": 2_000, "rounds": 3, "updates": 20},
        Scale.TINY: {"blocks": 2, "rows": 2_000, "changed": 20, "rounds": 2, "updates": 12},
    },
    rounds=1,
    prepare=Prepare(name="keyed", run=prepare, every_round=True),
    measure=update,
    reference="ours",
)

ROWS_POINT = Case(
    name="rows_point",
    sentence="one row of 10 M by its key, warm",
    peers=("ours", "ours-gateway", "lance-btree"),
    metrics=(
        Metric(name="lookup_ms", unit="ms", title="one row", higher_is_better=False, digits=2),
        Metric(name="least_ms", unit="ms", title="least", higher_is_better=False, digits=2),
        Metric(name="cpu_ms", unit="ms", title="processors", higher_is_better=False, digits=2),
    ),
    sizes={
        Scale.FULL: {"blocks": 10, "rows": 1_000_000, "lookups": 200},
        Scale.QUICK: {"blocks": 4, "rows": 250_000, "lookups": 50},
        Scale.TINY: {"blocks": 2, "rows": 2_000, "lookups": 5},
    },
    rounds=3,
    prepare=Prepare(name="keyed", run=prepare),
    measure=point,
    borrows={"ours-gateway": "ours"},
    reference="lance-btree",
)

ROWS_UPDATE16 = Case(
    name="rows_update16",
    sentence="updates of 1,000 rows of its own by each of 16 processes in one table, 20 each, for "
    "at most 60 s, by a condition and by key, and as many appends to another table",
    peers=("ours", "lance", "delta"),
    metrics=(
        Metric(name="commits_per_s", unit="/s", title="updates", higher_is_better=True),
        Metric(name="refused_percent", unit="%", title="refused", higher_is_better=False),
        Metric(name="p99_ms", unit="ms", title="99th percentile", higher_is_better=False),
        Metric(name="of_appends", unit="x", title="appends", higher_is_better=True, digits=2),
        Metric(
            name="by_key_of_appends",
            unit="x",
            title="by key, of appends",
            higher_is_better=True,
            digits=2,
        ),
        Metric(
            name="by_key_refused_percent",
            unit="%",
            title="by key, refused",
            higher_is_better=False,
        ),
    ),
    sizes={
        Scale.FULL: {"processes": 16, "appends": 20, "rows": 1_000, "limit_s": 60},
        Scale.QUICK: {"processes": 16, "appends": 5, "rows": 1_000, "limit_s": 60},
        Scale.TINY: {"processes": 2, "appends": 3, "rows": 10, "limit_s": 10},
    },
    rounds=2,
    measure=at_once,
    reference="ours",
)
