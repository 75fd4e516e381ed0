"""Runs in the environment of the foreign engines: changes tables of a catalog with one of them.

Prints a JSON object: for each table its rows at the end, as the engine reads them, as lines; and
what was refused, by its statement.

``commit_clients.py ENGINE URI TOKEN NAMESPACE``
``commit_clients.py refused-spark URI TOKEN NAMESPACE``: prints why an INSERT is refused
``commit_clients.py stream-spark URI TOKEN NAMESPACE FOLDER``: a stream whose driver ends after the
commit of its epoch, and is started again; prints how many epochs it has written
``commit_clients.py append-ENGINE URI TOKEN NAMESPACE FIRST SECONDS``: appends rows from a number on
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLES = ("ids", "keyed", "labelled", "plain")

Refused = dict[str, str]


def rows(*numbers: int, word: str = "new", **labels: str) -> Any:
    import pyarrow as pa

    columns = {
        "time": pa.array([1_767_225_600_000_000 + n for n in numbers], pa.timestamp("us", "UTC")),
        "n": pa.array(numbers, pa.int64()),
        "s": pa.array([f"{word} {n}" for n in numbers]),
    }
    columns |= {name: pa.array([value] * len(numbers)) for name, value in labels.items()}
    return pa.table(columns)


def by_pyiceberg(uri: str, token: str, namespace: str) -> tuple[dict[str, Any], Refused]:
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog
    from pyiceberg.expressions import EqualTo, LessThan
    from pyiceberg.types import IntegerType, LongType

    catalog = load_catalog("lake", type="rest", uri=uri, token=token)
    refused: Refused = {}

    def attempt(name: str, change: Callable[[Any], object]) -> None:
        try:
            change(catalog.load_table(f"{namespace}.{name}"))
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {error}"

    for name in ("ids", "keyed", "plain"):
        table = catalog.load_table(f"{namespace}.{name}")
        for some in (rows(1001, 1002), rows(1003)):
            table.append(some.cast(table.schema().as_arrow()))  # a key is never null
    labelled = catalog.load_table(f"{namespace}.labelled")
    both = [rows(1001, site="x"), rows(1002, site="y"), rows(1003, site="z")]
    labelled.append(pa.concat_tables(both))
    labelled.overwrite(rows(2001, site="x"), overwrite_filter=EqualTo("site", "x"))
    made = catalog.create_table(f"{namespace}.made", rows(1).schema)
    made.append(rows(1, 2))
    with made.update_schema() as update:
        update.add_column("other", IntegerType(), doc="more")
        update.rename_column("s", "words")
        update.move_first("n")
    with made.update_schema() as update:
        update.update_column("other", LongType())
    made.append(rows(3).rename_columns(["time", "n", "words"]))
    made.append(pa.table({"n": [4], "other": [2**40]}))
    with made.update_schema() as update:
        update.delete_column("words")
    shown = made.scan().to_arrow().sort_by("n").drop_columns(["time"])
    assert shown.to_pylist() == [
        {"n": n, "other": 2**40 if n == 4 else None} for n in range(1, 5)
    ], shown
    catalog.drop_table(f"{namespace}.made")
    with catalog.create_table_transaction(f"{namespace}.made", rows(1).schema) as making:
        making.append(rows(1, 2))
        making.append(rows(3))
    assert catalog.load_table(f"{namespace}.made").scan().to_arrow().num_rows == 3
    catalog.drop_table(f"{namespace}.made")
    plain = catalog.load_table(f"{namespace}.plain")
    plain.delete(LessThan("n", 10))
    plain.overwrite(rows(5, 6), overwrite_filter=LessThan("n", 30))
    plain.upsert(rows(6, 1001, 1004, word="upserted"), join_cols=["n"])
    with plain.transaction() as together:
        together.append(rows(3001))
        together.delete(EqualTo("n", 1003))
        together.append(rows(3002))
    table = catalog.load_table(f"{namespace}.keyed")
    upserted = rows(6, 1004, word="upserted").cast(table.schema().as_arrow())
    table.upsert(upserted)  # by the key of the table
    table.delete(EqualTo("n", 7))
    attempt("keyed", lambda table: table.append(rows(1001).cast(table.schema().as_arrow())))
    attempt("ids", lambda table: table.delete(EqualTo("n", 1001)))
    attempt("labelled", lambda table: table.append(rows(7001)))
    attempt("plain", _with_a_property)
    found = {name: catalog.load_table(f"{namespace}.{name}").scan().to_arrow() for name in TABLES}
    return found, refused


def _with_a_property(table: Any) -> None:
    with table.transaction() as change:
        change.set_properties(owner="someone")


def _spark(uri: str, token: str) -> Any:
    from sessions import catalog, spark_with

    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    own = {"spark.sql.extensions": extensions, "spark.sql.defaultCatalog": "lake"}
    return spark_with({**catalog(uri, token), **own})


_TIME = "timestamp'2026-01-01 00:00:01'"
_SOURCE = "(SELECT 10L n, 'merged' s UNION ALL SELECT 11L, 'merged' UNION ALL SELECT 8001L, 'came')"
_MERGE = (
    f"MERGE INTO plain t USING {_SOURCE} u ON t.n = u.n WHEN MATCHED AND t.n = 11 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET s = u.s "
    f"WHEN NOT MATCHED THEN INSERT (time, n, s) VALUES ({_TIME}, u.n, u.s)"
)
_CREATE = (
    "CREATE TABLE made (id bigint NOT NULL, at timestamp, s string) "
    "TBLPROPERTIES ('blockstore.time-column' = 'at')"
)
_COPY = (
    "CREATE TABLE copied TBLPROPERTIES ('blockstore.time-column' = 'time') "
    "AS SELECT time, n AS m FROM plain WHERE n < 20"
)
DONE = (
    _CREATE,
    f"INSERT INTO made VALUES (1, {_TIME}, 'x')",
    "ALTER TABLE made ADD COLUMN other int COMMENT 'more' AFTER id",
    "ALTER TABLE made RENAME COLUMN s TO words",
    "ALTER TABLE made ALTER COLUMN other TYPE bigint",
    "ALTER TABLE made ALTER COLUMN words COMMENT 'what was said'",
    f"INSERT INTO made VALUES (2, 7, {_TIME}, 'y')",
    "ALTER TABLE made DROP COLUMN words",
    "SELECT assert_true(sum(id) = 3 AND sum(other) = 7 AND count(at) = 2) FROM made",
    "DROP TABLE made",
    f"INSERT INTO plain VALUES ({_TIME}, 7001, 'x'), ({_TIME}, 7002, 'y')",
    "UPDATE plain SET s = 'changed' WHERE n = 7001 OR n = 20",
    "DELETE FROM plain WHERE n = 7002",
    _MERGE,
    "DELETE FROM plain WHERE n < 5",
    f"INSERT INTO labelled VALUES ({_TIME}, 7001, 'x', 'x'), ({_TIME}, 7002, 'y', 'new')",
    "DELETE FROM labelled WHERE site = 'y'",
    f"INSERT INTO keyed VALUES ({_TIME}, 7001, 'x')",
    _MERGE.replace("INTO plain", "INTO keyed"),
    "UPDATE keyed SET s = 'changed' WHERE n = 20",
    "DELETE FROM keyed WHERE n < 5",
    "CREATE TABLE copied AS SELECT * FROM plain",
    "SELECT assert_true(count(*) = (SELECT count(*) FROM plain)) FROM copied",
    "DROP TABLE copied",
    _COPY,
    "SELECT assert_true(sum(m) = (SELECT sum(n) FROM plain WHERE n < 20)) FROM copied",
    "DROP TABLE copied",
    f"INSERT INTO ids VALUES ({_TIME}, 7001, 'x')",
)
REFUSED = (
    f"INSERT INTO keyed VALUES ({_TIME}, 7001, 'again')",
    "DELETE FROM ids WHERE n = 7001",
    "ALTER TABLE plain SET TBLPROPERTIES ('owner' = 'someone')",
    "ALTER TABLE labelled DROP COLUMN site",
    "CALL system.expire_snapshots(table => 'NAMESPACE.plain')",
    "CALL system.remove_orphan_files(table => 'NAMESPACE.plain')",
    "CREATE TABLE parted (id bigint) PARTITIONED BY (id)",
    "CREATE TABLE plain AS SELECT * FROM labelled",
    "CREATE TABLE odd AS SELECT n, s, n AS _source FROM plain",
)


def by_spark(uri: str, token: str, namespace: str) -> tuple[dict[str, Any], Refused]:
    from sessions import Rows

    session = _spark(uri, token)
    session.sql(f"USE lake.`{namespace}`")
    refused: Refused = {}
    for statement in DONE:
        session.sql(statement).collect()
    for statement in REFUSED:
        try:
            session.sql(statement.replace("NAMESPACE", namespace)).collect()
        except Exception as error:
            refused[statement] = str(error)[:2000]
    found = {name: Rows(session.sql(f"SELECT * FROM {name}").collect()) for name in TABLES}
    session.stop()
    return found, refused


def refused_by_spark(uri: str, token: str, namespace: str) -> str:
    """Why an INSERT is refused, on one line."""
    session = _spark(uri, token)
    try:
        session.sql(f"INSERT INTO lake.`{namespace}`.plain VALUES ({_TIME}, 7001, 'x')").collect()
    except Exception as error:
        return json.dumps(str(error)[:4000])
    return "it was not refused"


def stream_by_spark(uri: str, token: str, namespace: str, folder: str) -> int:
    """Write one epoch twice, as a driver does that ended before it noted the first commit."""
    session = _spark(uri, token)
    incoming, checkpoint = Path(folder, "rows"), Path(folder, "checkpoint")
    incoming.mkdir(parents=True)
    lines = [
        json.dumps({"time": "2026-01-01T00:00:00Z", "n": n, "s": "streamed"}) for n in (9001, 9002)
    ]
    (incoming / "first.json").write_text("\n".join(lines))
    written = 0
    for _ in range(2):
        rows = session.readStream.schema("time timestamp, n bigint, s string").json(str(incoming))
        query = (
            rows.writeStream.format("iceberg")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .toTable(f"lake.`{namespace}`.plain")
        )
        query.awaitTermination()
        for noted in checkpoint.glob("commits/*0*"):
            noted.unlink()
            written += noted.name == "0"
    session.stop()
    return written


def append_by_pyiceberg(uri: str, token: str, namespace: str, first: int, seconds: float) -> int:
    from pyiceberg.catalog import load_catalog

    table = load_catalog("lake", type="rest", uri=uri, token=token).load_table(f"{namespace}.plain")
    return _append_for(seconds, first, lambda number: table.append(rows(number)))


def merge_by_spark(uri: str, token: str, namespace: str, first: int, seconds: float) -> int:
    """As ``append_by_spark``, but each row by a MERGE into the table with a key."""
    session = _spark(uri, token)
    session.sql(f"USE lake.`{namespace}`")
    one = (
        "MERGE INTO keyed t USING (SELECT {0}L n) u ON t.n = u.n WHEN MATCHED THEN UPDATE SET s = "
        f"'merged' WHEN NOT MATCHED THEN INSERT (time, n, s) VALUES ({_TIME}, u.n, 'merged')"
    )
    done = _append_for(seconds, first, lambda number: session.sql(one.format(number)).collect())
    session.stop()
    return done


def append_by_spark(uri: str, token: str, namespace: str, first: int, seconds: float) -> int:
    session = _spark(uri, token)
    session.sql(f"USE lake.`{namespace}`")
    done = _append_for(
        seconds,
        first,
        lambda number: session.sql(
            f"INSERT INTO plain VALUES ({_TIME}, {number}, 'spark')"
        ).collect(),
    )
    session.stop()
    return done


def _append_for(seconds: float, first: int, append: Callable[[int], object]) -> int:
    """Append one row after the other; returns how many. What is refused is repeated."""
    ends, number = time.monotonic() + seconds, first
    while time.monotonic() < ends:
        try:
            append(number)
        except Exception as error:
            if "CommitFailedException" not in f"{type(error).__name__}: {error}":
                raise
            continue
        number += 1
    return number - first


ENGINES = {"pyiceberg": by_pyiceberg, "spark": by_spark}
APPENDING = {
    "append-pyiceberg": append_by_pyiceberg,
    "append-spark": append_by_spark,
    "merge-spark": merge_by_spark,
}


def main() -> None:
    engine, uri, token, namespace, *more = sys.argv[1:]
    warnings.simplefilter("ignore")
    if engine == "refused-spark":
        print(refused_by_spark(uri, token, namespace))
        return
    if engine == "stream-spark":
        print(stream_by_spark(uri, token, namespace, more[0]))
        return
    if engine in APPENDING:
        print(APPENDING[engine](uri, token, namespace, int(more[0]), float(more[1])))
        return
    from forms import lines

    found, refused = ENGINES[engine](uri, token, namespace)
    print(json.dumps([{name: lines(one) for name, one in found.items()}, refused]))


if __name__ == "__main__":
    main()
