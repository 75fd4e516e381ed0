"""Random statements on Blockstore and on DuckDB, one after the other on the same tables: each does
the same on both, or is refused by both, and after each the contents are equal.

    python -m tests.reader.statements.random_statements --statements 2000 --seed 1

On tables of every kind, with transactions, and with merges by the compactor in between.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable

import duckdb

from blockstore.care.verify import verify
from blockstore.errors import BlockstoreError
from blockstore.reader.statements.door import opened
from blockstore.world import World
from tests.reader.statements.logic import KINDS, Both, Record

_MOST = 12
_MADE = "(k BIGINT PRIMARY KEY, a INTEGER, b VARCHAR)"
_RELATED = 0.03
"""How often the table that others are joined with changes."""
_TOGETHER = 0.08
"""How often statements are one transaction."""
_MERGED = 0.04
"""How often the tables are merged."""


class Statements:
    """Makes random statements for one kind of table."""

    def __init__(self, kind: str, seed: int) -> None:
        self._kind = kind
        self._random = random.Random(f"{seed} {kind}")
        own = [self._insert, self._update, self._delete, self._merge]
        self._each = [*own, self._upsert] if kind == "key" else own

    def happens(self, often: float) -> bool:
        """Whether something that happens so often happens now."""
        return self._random.random() < often

    def one(self) -> str:
        """A statement that changes rows of ``t``."""
        make: Callable[[], str] = self._random.choice(self._each)
        return make()

    def several(self) -> list[str]:
        """Some of them."""
        return [self.one() for _ in range(self._random.randint(2, 5))]

    def related(self) -> list[str]:
        """Statements that change a row of ``s``, whose ``k`` stays unique."""
        k = self._small
        return [f"DELETE FROM s WHERE k = {k}", f"INSERT INTO s VALUES {self._row(k)}"]

    def rows_of(self, keys: Iterable[int]) -> Iterable[str]:
        """A row of each key."""
        return map(self._row, keys)

    @property
    def _small(self) -> int:
        return self._random.randrange(_MOST)

    def _row(self, k: int | None = None) -> str:
        a = self._random.choice(["NULL", *map(str, range(_MOST))])
        b = self._random.choice(["NULL", "'x'", "'y'", "'it''s'", "''"])
        return f"({self._random.randrange(3 * _MOST) if k is None else k}, {a}, {b})"

    def _rows(self) -> str:
        return ", ".join(self._row() for _ in range(self._random.randint(1, 6)))

    def _others(self) -> str:
        """Rows of different keys: a key twice in one statement is refused here."""
        keys = self._random.sample(range(3 * _MOST), self._random.randint(1, 6))
        return ", ".join(self.rows_of(keys))

    def _insert(self) -> str:
        n = self._small
        return self._random.choice(
            [
                f"INSERT INTO t VALUES {self._rows()}",
                f"INSERT INTO t VALUES {self._rows()}",
                f"INSERT INTO t (b, k) VALUES ('half', {100 + n}), (DEFAULT, {120 + n})",
                f"INSERT INTO t SELECT k + {10 * n}, a, b FROM t WHERE k < {n}",
                f"INSERT INTO t BY NAME SELECT a, k + {n} AS k FROM s WHERE a > 1",
                (
                    f"WITH w AS (SELECT max(k) AS k FROM t) INSERT INTO t SELECT k + 1, {n}, 'w' "
                    "FROM w WHERE k IS NOT NULL"
                ),
            ]
        )

    def _update(self) -> str:
        n = self._small
        return self._random.choice(
            [
                f"UPDATE t SET a = a + 1 WHERE k % 3 = {n % 3}",
                f"UPDATE t SET b = NULL, a = {n} WHERE a > {n} OR a IS NULL",
                f"UPDATE t SET a = s.a, b = s.b FROM s WHERE t.k = s.k AND s.k > {n}",
                f"UPDATE t SET a = (SELECT count(*) FROM t) WHERE k > {2 * n}",
                f"UPDATE t SET b = coalesce(b, '') || '!' WHERE a > (SELECT avg(a) FROM t) + {n}",
                f"UPDATE t SET a = DEFAULT WHERE k IN (SELECT k FROM s WHERE a < {n})",
                f"UPDATE t AS x SET a = k, b = (SELECT max(b) FROM s WHERE a = x.a) WHERE k = {n}",
                f"UPDATE t SET a = 'no number' WHERE k = {n}",
            ]
        )

    def _delete(self) -> str:
        n = self._small
        return self._random.choice(
            [
                f"DELETE FROM t WHERE a < {n // 2}",
                f"DELETE FROM t USING s WHERE t.a = s.a AND s.k > {n}",
                f"DELETE FROM t WHERE k NOT IN (SELECT k FROM s WHERE k > {n}) AND k < 6",
                f"DELETE FROM t WHERE k >= {3 * n}",
                "DELETE FROM t WHERE a = (SELECT max(a) FROM t)",
                f"DELETE FROM t WHERE k > 60 AND b IS DISTINCT FROM 'w{n}'",
            ]
        )

    def _merge(self) -> str:
        n = self._small
        return self._random.choice(
            [
                (
                    f"MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.a > {n} THEN DELETE "
                    "WHEN MATCHED THEN UPDATE SET a = s.a "
                    "WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.a, 'new')"
                ),
                (
                    f"MERGE INTO t USING (SELECT * FROM s WHERE k > {n}) AS s ON t.k = s.k WHEN "
                    "MATCHED THEN DO NOTHING "
                    "WHEN NOT MATCHED AND s.a IS NOT NULL THEN INSERT (k) VALUES (s.k) "
                    "WHEN NOT MATCHED BY SOURCE AND t.a > 3 THEN UPDATE SET b = 'alone'"
                ),
                (
                    f"MERGE INTO t USING (SELECT k + {n} AS k, a FROM s) AS s USING (k) "
                    "WHEN MATCHED AND t.a IS NULL THEN UPDATE SET a = s.a "
                    "WHEN NOT MATCHED BY SOURCE AND a = (SELECT min(a) FROM t) THEN DELETE"
                ),
                (
                    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET b = s.b || t.k "
                    "WHEN NOT MATCHED THEN INSERT"
                ),
            ]
        )

    def _upsert(self) -> str:
        n = self._small
        return self._random.choice(
            [
                f"INSERT INTO t VALUES {self._others()} ON CONFLICT DO NOTHING",
                f"INSERT INTO t VALUES {self._others()} ON CONFLICT DO UPDATE SET a = excluded.a",
                (
                    f"INSERT INTO t VALUES {self._others()} ON CONFLICT (k) "
                    f"DO UPDATE SET b = t.b || 'c' WHERE excluded.a > {n}"
                ),
                f"INSERT OR REPLACE INTO t VALUES {self._others()}",
                f"INSERT INTO t SELECT k, {n}, b FROM s ON CONFLICT DO UPDATE SET a = t.a + {n}",
            ]
        )


def run(kind: str, seed: int, wanted: int) -> Counter[str]:
    """Run so many statements on tables of one kind; return what came out. Raises AssertionError for
    a difference."""
    make, counts = Statements(kind, seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, opened(f"{folder}?durable=false") as session:
        both = Both(session, kind)
        for name in ("t", "s"):
            both.run(Record("statement ok", f"CREATE TABLE {name} {_MADE}", 0))
            rows = ", ".join(make.rows_of(range(_MOST)))
            both.run(Record("statement ok", f"INSERT INTO {name} VALUES {rows}", 0))
        while counts["statements"] < wanted:
            if make.happens(_TOGETHER):
                texts = make.several()
                both.transaction("t", texts)
                counts["transactions"] += 1
            elif make.happens(_RELATED):
                texts = make.related()
                for sql in texts:
                    both.run(Record("statement ok", sql, 0))
            else:
                texts = [make.one()]
                counts["refused by both"] += same_end(both, texts[0])
            counts["statements"] += len(texts)
            both.compare((kind, seed, counts["statements"], texts))
            if make.happens(_MERGED):
                both.compact()
                counts["merges"] += 1
                both.compare((kind, seed, counts["statements"], "merged"))
        table = session.tables.open("t")
        counts["versions"] = table.poll()
        assert not verify(table.bucket, World.real(), deep=True).findings
    return counts


def same_end(both: Both, sql: str) -> bool:
    """Run a statement on both; return whether they refuse it. Raises AssertionError if one does
    alone."""
    refused = []
    for one in (both.do, both.duck):
        try:
            one(sql)
        except (BlockstoreError, duckdb.Error) as error:
            refused.append(error)
    assert len(refused) in (0, 2), (sql, refused)
    return bool(refused)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=2_000, help="on each kind of table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    total = Counter[str]()
    for kind in asked.kinds:
        found = run(kind, asked.seed, asked.statements)
        print(f"{kind}: {said(found)}", flush=True)
        total += found
    print(f"random-statements: {said(total)}; contents equal after each")
    return 0


def said(counts: Counter[str]) -> str:
    """Counts in words."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
