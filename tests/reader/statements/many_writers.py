"""Many writers change the same few rows by statements, each in a session of its own: every
statement that was done counts once, and one that was refused not at all.

    python -m tests.reader.statements.many_writers --writers 16 --statements 20

Says how many statements were planned again because others were faster, and how many were refused.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import blockstore as bs
from blockstore.care.verify import verify
from blockstore.errors import Conflict
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.transaction import Block, carry_out, grouped
from blockstore.world import World
from tests.reader.statements.logic import KINDS

_HOT = 8
"""So many rows are changed by all."""
_MADE = {
    "key": "CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT)",
    "ids": "CREATE TABLE t (k BIGINT, n BIGINT) WITH (row_ids = true)",
    "plain": "CREATE TABLE t (k BIGINT, n BIGINT)",
}


class _Plans(threading.Event):
    """What a statement says of its commit; counts how often it was planned."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def clear(self) -> None:
        super().clear()
        self.count += 1


def statements(writer: int, count: int, seed: int) -> list[tuple[str, int]]:
    """The statements of one writer, and by how much each raises the sum of ``n``."""
    chance = random.Random(f"{seed} {writer}")
    found = []
    for number in range(count):
        k, own = chance.randrange(_HOT), 1_000 + 1_000 * writer + number
        update = f"UPDATE t SET n = n + 1 WHERE k = {k}"
        merge = (
            f"MERGE INTO t USING (VALUES ({k}, 2), ({own}, 5)) AS s(k, n) ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT"
        )
        insert = f"INSERT INTO t VALUES ({own}, 3)"
        other = f"UPDATE t SET n = n + 1 WHERE k = {(k + 1) % _HOT}"
        several = f"BEGIN; {update}; {other}; {insert}; COMMIT"
        each = [(update, 1), (update, 1), (merge, 7), (insert, 3), (several, 5)]
        found.append(chance.choice(each))
    return found


def written(lake: str, texts: list[tuple[str, int]], start: threading.Barrier) -> Counter[str]:
    """What one writer did."""
    counts = Counter[str]()
    with opened(lake) as session:
        start.wait()
        for sql, raises in texts:
            plans = _Plans()
            (step,) = grouped(session.parse(sql))
            doing = Doing().committing(plans)
            try:
                if isinstance(step, Block):
                    carry_out(session, step, doing)
                    counts["transactions"] += 1
                else:
                    session.run(step, doing)
                counts["sum"] += raises
                counts["done"] += 1
            except Conflict:
                counts["refused"] += 1
            counts["planned again"] += max(0, plans.count - 1)
    return counts


def run(kind: str, writers: int, count: int, seed: int) -> Counter[str]:
    """Run all writers on a table of one kind; return what came out. Raises AssertionError where a
    statement counts other than once."""
    with tempfile.TemporaryDirectory() as folder:
        bs.sql(folder, f"{_MADE[kind]}; INSERT INTO t SELECT i, 0 FROM range({_HOT}) r(i)")
        start = threading.Barrier(writers)
        with ThreadPoolExecutor(writers) as pool:
            texts = [statements(writer, count, seed) for writer in range(writers)]
            each = list(pool.map(lambda own: written(folder, own, start), texts))
        total = sum(each, Counter[str]())
        table = bs.open(f"{folder}/t")
        (row,) = bs.sql(folder, "SELECT sum(n) AS sum FROM t").to_arrow().to_pylist()
        assert row["sum"] == total["sum"], (kind, row, total)
        total["versions"] = table.poll()
        assert total["versions"] == 2 + total["done"], (kind, total)
        assert not verify(table.bucket, World.real(), deep=True).findings
    del total["sum"]
    return total


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--statements", type=int, default=20, help="of each writer")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for kind in KINDS:
        found = run(kind, asked.writers, asked.statements, asked.seed)
        said = ", ".join(f"{found[name]:,} {name}" for name in ("done", "planned again", "refused"))
        end = "; " if kind != KINDS[-1] else "\n"
        print(f"{'many-writers: ' if kind == KINDS[0] else ''}{kind}: {said}", end=end, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
