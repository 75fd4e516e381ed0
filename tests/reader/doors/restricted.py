"""A lake of which a caller sees a part: what it must never get contains a mark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.tables.policies import Policy

MARK = "SECRET"
ANN = "bsk_ann"
"""Sees the rows of her own of ``orders``, and not its notes; all of ``open``."""
OWN = Policy(
    name="own", tables=frozenset({"Orders"}), rows="tenant = current_user", hide=frozenset({"note"})
)
HER = Token(
    name="ann",
    sha256=hashed(ANN),
    scopes=frozenset({Scope.READ, Scope.WRITE, Scope.DDL}),
    policies=(OWN,),
)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("time", pa.timestamp("us", "UTC")),
        ("tenant", pa.string()),
        ("amount", pa.int64()),
        ("code", pa.string()),
        ("note", pa.string()),
    ]
)
HERS = 10
ALL = 50


def orders(ids: range) -> pa.Table:
    """Rows of which every fifth is Ann's. The values of the others have the mark, or are numbers
    from 7,000,000."""
    rows = [
        {
            "id": one,
            "time": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=one),
            "tenant": "ann" if one % 5 == 0 else f"{MARK}-{one % 5}",
            "amount": one if one % 5 == 0 else 7_000_000 + one,
            "code": f"1{one}" if one % 5 == 0 else f"{MARK}{one}",
            "note": f"{MARK}-note-{one}",
        }
        for one in ids
    ]
    return pa.Table.from_pylist(rows, COLUMNS)


def make_lake(folder: Path) -> str:
    """``orders``, with a key, in two blocks and a tag; ``open``, a table that all may read."""
    table = bs.create(
        f"{folder}/lake/orders?durable=false", schema=COLUMNS, key=["id"], time_column="time"
    )
    table.insert(orders(range(ALL // 2)))
    table.insert(orders(range(ALL // 2, ALL)))
    table.tag("first", version=2)
    other = bs.create(
        f"{folder}/lake/open?durable=false",
        schema=pa.schema([("a", pa.int64()), ("b", pa.string())]),
        row_ids=True,
    )
    other.append(pa.table({"a": [10, 15], "b": ["110", "115"]}))
    return f"{folder}/lake?durable=false"


QUERIES = (
    "SELECT * FROM orders",
    "FROM orders",
    "TABLE orders",
    "SELECT count(*) FROM orders",
    "SELECT count(*), min(amount), max(amount), min(code), max(code), max(time) FROM orders",
    "SELECT o FROM orders o",
    "SELECT COLUMNS('.*') FROM orders",
    "SELECT * EXCLUDE (id) FROM orders",
    "DESCRIBE orders",
    "SUMMARIZE orders",
    "SELECT tenant, count(*) FROM orders GROUP BY ALL",
    "SELECT * FROM orders ORDER BY amount DESC LIMIT 5",
    "SELECT * FROM orders WHERE amount > 6000000",
    "SELECT * FROM orders WHERE tenant <> 'ann' OR true",
    "SELECT count(*) FROM orders WHERE CAST(code AS INT) > 0",
    "SELECT count(*) FROM orders WHERE amount < 100 AND CAST(code AS INT) > 0",
    "SELECT count(*) FROM orders WHERE CASE WHEN amount > 100 THEN error(code) END IS NULL",
    "SELECT sum(CAST(code AS INT)) FROM orders",
    "SELECT count(*) FROM orders o JOIN open p ON CAST(o.code AS INT) = CAST(p.b AS INT)",
    "SELECT count(*) FROM open p JOIN orders o ON CAST(o.code AS INT) + p.a > 0",
    "SELECT count(*) FROM open WHERE CAST(b AS INT) IN (SELECT CAST(code AS INT) FROM orders)",
    "SELECT count(*) FROM orders a, orders b WHERE CAST(a.code AS INT) = CAST(b.code AS INT)",
    "SELECT * FROM orders a SEMI JOIN orders b ON CAST(a.code AS INT) = CAST(b.code AS INT)",
    "SELECT * FROM orders USING SAMPLE 40 ROWS",
    "SELECT * FROM orders TABLESAMPLE 90%",
    "WITH o AS (SELECT * FROM orders) SELECT * FROM o UNION ALL SELECT * FROM o",
    "WITH o AS MATERIALIZED (FROM orders) SELECT count(*) FROM o WHERE CAST(code AS INT) > 0",
    "WITH RECURSIVE r AS (SELECT max(id) m FROM orders UNION SELECT 1 FROM r) FROM r",
    "SELECT row_number() OVER (ORDER BY CAST(code AS INT)) FROM orders",
    "SELECT list(code), string_agg(tenant, ',') FROM orders",
    "SELECT 1 FROM orders GROUP BY CAST(code AS INT) HAVING max(amount) > 0",
    "SELECT (SELECT max(code) FROM orders), (SELECT max(amount) FROM orders)",
    "SELECT p.a, x.code FROM open p, LATERAL (SELECT code FROM orders WHERE amount >= p.a) x",
    "PIVOT orders ON tenant USING sum(amount)",
    "SELECT approx_quantile(amount, 1.0), histogram(tenant) FROM orders",
    "SELECT amount // (amount - 5) FROM orders",
    "SELECT CAST(amount AS TINYINT) FROM orders",
    "SELECT count(*) FROM orders WHERE CAST(amount AS TINYINT) >= 0",
)
"""Queries that a policy leaves something of: each is of Ann's rows alone, or fails without a
value of another."""

NOTHING = (
    "SELECT note FROM orders",
    "SELECT * FROM orders WHERE note LIKE 'SEC%'",
    "SELECT o.note FROM orders o",
    "SELECT * EXCLUDE (note) FROM orders",
    "SELECT _version, _source FROM orders",
    "SELECT count(_row_id) FROM orders",
    "SELECT * FROM orders AT (VERSION => 1)",
    "SELECT * FROM orders AT (VERSION => 'first')",
    "SELECT * FROM orders AT (TIMESTAMP => '2026-01-01T00:00:00Z')",
    "SELECT * FROM orders.history",
    "SELECT * FROM orders.blocks",
    "SELECT * FROM orders.tags",
    "SELECT * FROM orders.rows_history(1)",
    "SELECT * FROM orders.changes(after => 0)",
    "SELECT count(*) FROM orders, orders.blocks",
    "SELECT * FROM ORDERS.blocks",
    'SELECT * FROM "orders/meta.json"',
    "SELECT * FROM read_parquet('{folder}/lake/orders/*/*.parquet')",
    "SELECT * FROM parquet_metadata('{folder}/lake/orders/*/*.parquet')",
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_columns()",
    "SELECT * FROM duckdb_logs()",
    "SELECT sql FROM sqlite_master",
    "SELECT * FROM pragma_storage_info('orders')",
    "SELECT * FROM query('SELECT * FROM orders')",
    "SELECT * FROM query_table('orders')",
    "SELECT getvariable('files 0 of orders')",
    "SELECT current_setting('temp_directory')",
    "SHOW TABLES",
    "EXPLAIN SELECT * FROM orders WHERE amount > 6000000",
    "EXPLAIN ANALYZE SELECT * FROM orders",
    "EXPLAIN DELETE FROM orders WHERE amount > 6000000",
)
"""What a caller asks for in vain."""

CHANGES = (
    "INSERT INTO orders (id, tenant) VALUES (1000, 'ann')",
    "INSERT INTO open (b) SELECT code FROM orders",
    "INSERT INTO open BY NAME SELECT code AS b FROM orders WHERE false",
    "UPDATE orders SET tenant = 'ann'",
    "UPDATE open SET b = o.code FROM orders o WHERE o.amount > 0",
    "UPDATE open SET b = (SELECT max(code) FROM orders)",
    "DELETE FROM orders",
    "DELETE FROM orders WHERE tenant <> 'ann'",
    "DELETE FROM open USING orders WHERE open.a = orders.id",
    "DELETE FROM open WHERE EXISTS (SELECT 1 FROM orders WHERE code LIKE 'SEC%')",
    "TRUNCATE orders",
    "MERGE INTO orders USING open ON orders.id = open.a WHEN MATCHED THEN DELETE",
    "MERGE INTO open USING orders o ON open.a = o.id WHEN MATCHED THEN UPDATE SET b = o.code",
    "CREATE TABLE copy AS SELECT * FROM orders",
    "CREATE OR REPLACE TABLE orders (a INT)",
    "CREATE TABLE ORDERS (a INT)",
    "ALTER TABLE orders DROP COLUMN note",
    "ALTER TABLE orders RENAME COLUMN tenant TO owner",
    "DROP TABLE orders",
    "UNDROP TABLE orders",
    "CALL compact('orders')",
    "CALL expire('orders')",
    "CALL tag('orders', 'mine')",
    "CALL restore('orders', 1)",
    "BEGIN; INSERT INTO open (b) SELECT code FROM orders; COMMIT",
)
"""Changes of what she sees a part of, or that copy it."""
