"""Foreign engines change a table through the gateway's catalog: every row once, with our own
writers and the compactor at the same time."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.reader.iceberg.commits.commit import KEEP, Commits
from blockstore.reader.settings import TableSettings
from blockstore.world import World
from tests.engines.commit_clients import DONE, REFUSED, TABLES
from tests.engines.forms import lines
from tests.engines.test_iceberg import PYTHON
from tests.reader.http.gateways import SCHEMA, WRITE, Served, rows_of, serving, settings
from tests.reader.iceberg.foreign import counted
from tests.support.tally import tally

SECONDS = float(os.environ.get("BLOCKSTORE_FOREIGN_SECONDS", "6"))
"""How long engines append while others do; the long series has more."""
WRITERS = int(os.environ.get("BLOCKSTORE_FOREIGN_WRITERS", "1"))
"""Processes of our own that write meanwhile."""
OWN_A_SECOND = 50
"""How many rows a second they append together, where the machine lets them."""
WRITING = os.environ.get("BLOCKSTORE_FOREIGN_ENGINES", "append-pyiceberg").split()
PROGRAM = Path(__file__).parent / "commit_clients.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[Served, Mapping[str, bs.Table]]]:
    url = f"{tmp_path}/lake"
    tables = {}
    for name in TABLES:
        table = tables[name] = bs.create(
            f"{url}/{name}?durable=false",
            schema=SCHEMA,
            time_column="time",
            sort_by=["n"],
            key="n" if name == "keyed" else (),
            row_ids=name == "ids",
        )
        for site in "xy" if name == "labelled" else "x":
            rows = rows_of(range(100))
            if name == "keyed":
                table.insert(rows)
            else:
                table.append(rows, labels={"site": site} if name == "labelled" else None)
    with serving(
        settings(url, tmp_path, tables=TableSettings(urls=(f"{url}?durable=false",)))
    ) as s:
        yield s, tables


def started(engine: str, served: Served, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PYTHON, PROGRAM, engine, f"{served.url}/iceberg", WRITE, "lake", *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=280)
    named = [line for line in err.splitlines() if "Exception" in line or "Error" in line]
    assert process.returncode == 0, "\n".join([*named, *err.splitlines()[-20:]])
    return out.splitlines()[-1]


def changed(engine: str, lake: tuple[Served, Mapping[str, bs.Table]]) -> tuple[dict, dict]:
    """What the engine was refused, and the numbers in each table; its rows and ours are equal."""
    served, tables = lake
    found, refused = json.loads(ended(started(engine, served)))
    numbers = {}
    for name, table in tables.items():
        table.poll()
        ours = table.snapshot().scan().to_table()
        assert found[name] == lines(ours), name
        numbers[name] = sorted(ours["n"].to_pylist())
    return refused, numbers


def write(urls: Sequence[str], first: int, over: Path) -> tuple[range, float]:
    """A writer of our own, in a process of its own: one row after the other into a table and into
    one with a key, until there is a file ``over``. Returns the rows' numbers, and how many seconds
    it took."""
    plain, keyed = map(bs.open, urls)
    clock = World.real().clock
    number, began = first, clock.monotonic_s()
    while not over.exists():
        row = rows_of(range(number, number + 1))
        plain.append(row)
        keyed.upsert(row)
        number += 1
        due = began + (number - first) * WRITERS / OWN_A_SECOND
        clock.sleep(max(0.0, due - clock.monotonic_s()))
    return range(first, number), clock.monotonic_s() - began


def merge(urls: Sequence[str], work_dir: Path, over: Path) -> int:
    """A compactor, in a process of its own, until there is a file ``over``. Returns the merges."""
    merging, done = Settings(tier_blocks=4, work_dir=work_dir), 0
    while not over.exists():
        for url in urls:
            try:
                done += len(compact_once(bs.open(url), merging).done)
            except bs.Unavailable:  # lost too many races: the next pass tries again
                continue
    return done


def left_behind(lake: tuple[Served, Mapping[str, bs.Table]]) -> list[str]:
    return [
        info.key
        for table in lake[1].values()
        for info in table.bucket.list("incoming/")
        if not info.key.endswith(f"/{KEEP}")
    ]


def test_pyiceberg_appends_overwrites_deletes_and_upserts(
    lake: tuple[Served, Mapping[str, bs.Table]],
) -> None:
    refused, numbers = changed("pyiceberg", lake)
    first = list(range(100))
    assert numbers["ids"] == [*first, 1001, 1002, 1003]
    assert numbers["keyed"] == [*(n for n in first if n != 7), 1001, 1002, 1003, 1004]
    assert numbers["labelled"] == [*first, 1002, 1003, 2001]
    assert numbers["plain"] == sorted([5, 6, *first[30:], 1001, 1002, 1004, 3001, 3002])
    plain = lake[1]["plain"].snapshot().scan(where="s LIKE 'upserted%'").to_table()
    assert sorted(plain["n"].to_pylist()) == [6, 1001, 1004]
    assert "of the keys exist already (1001)" in refused["keyed"]
    assert "the rows of this table have ids" in refused["ids"]
    assert "change properties and tags with Blockstore" in refused["plain"]
    assert "site" in refused["labelled"], "the client asks for the column of the label"


def test_spark_inserts_updates_deletes_and_merges(
    lake: tuple[Served, Mapping[str, bs.Table]],
) -> None:
    refused, numbers = changed("spark", lake)
    first = list(range(100))
    assert numbers["ids"] == [*first, 7001]
    assert numbers["keyed"] == numbers["plain"]
    assert numbers["labelled"] == sorted([*first, 7001, 7002])
    assert numbers["plain"] == [*(n for n in first[5:] if n != 11), 7001, 8001]
    words = Counter(lake[1]["plain"].snapshot().scan().to_table()["s"].to_pylist())
    assert (words["changed"], words["merged"], words["came"]) == (2, 1, 1)
    assert set(refused) == set(REFUSED)
    assert [entry.operation for entry in lake[1]["plain"].history()][2:] == [
        "append", "overwrite", "overwrite", "overwrite", "overwrite",
    ]  # fmt: skip
    tally("statements of foreign engines", len(DONE) + len(REFUSED))


def test_spark_sends_what_is_refused_once(
    lake: tuple[Served, Mapping[str, bs.Table]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property of the tables counts for Iceberg's Java code too."""

    def conflict(*_: object) -> int:
        raise bs.Conflict("the table has moved on")

    monkeypatch.setattr(Commits, "commit", conflict)
    assert "the table has moved on" in ended(started("refused-spark", lake[0]))
    assert counted(lake[0])["conflict"] == 1


def test_an_epoch_of_a_stream_of_spark_that_is_written_again_counts_once(
    lake: tuple[Served, Mapping[str, bs.Table]], tmp_path: Path
) -> None:
    assert ended(started("stream-spark", lake[0], str(tmp_path / "stream"))) == "2"
    plain = lake[1]["plain"]
    plain.poll()
    found = plain.snapshot().scan().to_table()["n"].to_pylist()
    assert sorted(found) == [*range(100), 9001, 9002]


def test_engines_write_while_our_writers_do_and_the_compactor_merges(
    lake: tuple[Served, Mapping[str, bs.Table]], tmp_path: Path
) -> None:
    """Appends to one table, and merges into another that has a key."""
    served, tables = lake
    world = World.real()
    running = [
        started(engine, served, str(1_000_000 * place), str(SECONDS))
        for place, engine in enumerate(WRITING, 1)
    ]
    over = tmp_path / "over"
    urls = [tables[name].url for name in ("plain", "keyed")]
    with ProcessPoolExecutor(WRITERS + 1, multiprocessing.get_context("spawn")) as pool:
        merged = pool.submit(merge, urls, tmp_path, over)
        own = [pool.submit(write, urls, 100_000 * n, over) for n in range(1, WRITERS + 1)]
        try:
            while any(process.poll() is None for process in running):
                world.clock.sleep(0.5)
        finally:
            over.touch()
    assert merged.result() >= 2, "the compactor does not starve"
    mine = [number for each in own for number in each.result()[0]]
    wanted = {name: [*range(100), *mine] for name in ("plain", "keyed")}
    foreign = 0
    for place, (engine, process) in enumerate(zip(WRITING, running, strict=True), 1):
        many = int(ended(process))
        assert many >= 2, "the engine does not starve"
        name = "keyed" if engine.startswith("merge") else "plain"
        wanted[name] += range(1_000_000 * place, 1_000_000 * place + many)
        foreign += many
    assert all(len(each.result()[0]) >= 2 for each in own), "none of our writers starves"
    for name, numbers in wanted.items():
        tables[name].poll()
        found = tables[name].snapshot().scan().to_table()["n"].to_pylist()
        assert sorted(found) == sorted(numbers), name
    assert not left_behind(lake)
    tally("commits of foreign engines", foreign)
    rate = sum(len(numbers) / seconds for numbers, seconds in (each.result() for each in own))
    print(
        f"foreign-commits: {foreign} commits of {', '.join(WRITING)}, "
        f"{counted(served)['conflict']} of them repeated; {len(mine)} rows of ours to "
        f"each table, {rate:.0f} a second of the "
        f"{OWN_A_SECOND} meant; {merged.result()} merges"
    )
