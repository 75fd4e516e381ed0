"""Runs in the environment of the foreign engines: one client of Flight SQL does what its users do
first, and prints what it found as JSON.

``flight_clients.py CLIENT URL TOKEN ROWS``; the lake has a table ``flights`` of so many rows.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from typing import Any

HEADER = "adbc.flight.sql.authorization_header"
CALL_HEADER = "adbc.flight.sql.rpc.call_header."
SLOW = "SELECT sum(a.n * b.n) FROM flights a, flights b, flights c"


def connected(url: str, token: str, **more: str) -> Any:
    from adbc_driver_flightsql import dbapi

    headers = {CALL_HEADER + name.replace("_", "-"): value for name, value in more.items()}
    return dbapi.connect(url, db_kwargs={HEADER: f"Bearer {token}", **headers}, autocommit=True)


def failing(call: Any) -> list[str]:
    """The class and the sentence of what a call raises."""
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


def by_dbapi(url: str, token: str, rows: int) -> dict[str, Any]:
    from adbc_driver_flightsql import dbapi

    found: dict[str, Any] = {}
    with connected(url, token) as connection, connection.cursor() as cursor:
        objects = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        tables = objects[0]["catalog_db_schemas"][0]["db_schema_tables"]
        found["tables"] = sorted(one["table_name"] for one in tables)
        found["schema"] = connection.adbc_get_table_schema("flights").to_string()
        cursor.execute("SELECT n, s FROM flights WHERE n < ? AND s <> ? ORDER BY n", (3, "row 1"))
        found["parameters"] = cursor.fetchall()
        cursor.execute("SELECT * FROM flights")
        fetched = cursor.fetch_arrow_table()
        found["million"] = [fetched.num_rows, sum(fetched["n"].to_pylist())]
        found["missing"] = failing(lambda: cursor.execute("SELECT * FROM flight"))
        found["wrong"] = failing(lambda: cursor.execute("SELEC"))
        threading.Timer(0.5, cursor.adbc_cancel).start()
        begun = time.monotonic()
        found["cancelled"] = failing(lambda: (cursor.execute(SLOW), cursor.fetchall()))
        found["cancelled_s"] = time.monotonic() - begun
        cursor.execute("SELECT count(*) FROM flights")
        found["after"] = cursor.fetchall()
        cursor.execute("INSERT INTO items VALUES ('a', 1)")
        found["count"] = cursor.fetchall()
        cursor.execute("UPDATE items SET n = $1 WHERE sku = $2", (5, "a"))
        found["again"] = failing(lambda: cursor.execute("INSERT INTO items VALUES ('a', 1)"))
        cursor.execute("SELECT * FROM items")
        found["items"] = cursor.fetchall()
    with (
        dbapi.connect(
            url, db_kwargs={"username": "anyone", "password": token}, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        found["password"] = cursor.fetchall()
    for name, wrong in (("none", ""), ("unknown", "bsk_nothing")):
        with connected(url, wrong) as connection, connection.cursor() as cursor:
            found[name] = failing(lambda cursor=cursor: cursor.execute("SELECT 1"))
    with connected(url, token, blockstore_version="2") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM flights")
        found["version"] = cursor.fetchall()
    return found


def by_ingest(url: str, token: str, rows: int) -> dict[str, Any]:
    import pyarrow as pa

    found: dict[str, Any] = {}
    table = pa.table({"sku": [f"sku {n}" for n in range(rows)], "n": list(range(rows))})
    count = "SELECT count(*), sum(n)::BIGINT FROM "
    with connected(url, token) as connection, connection.cursor() as cursor:
        for mode in ("create", "append", "replace", "create_append"):
            made = cursor.adbc_ingest("loaded", table, mode=mode)
            cursor.execute(count + "loaded")
            found[mode] = [made, *cursor.fetchone()]
        found["create again"] = failing(lambda: cursor.adbc_ingest("loaded", table, mode="create"))
        found["no table"] = failing(lambda: cursor.adbc_ingest("nowhere", table, mode="append"))
        odd = pa.table({"sku": ["x"], "n": ["y"]})
        found["odd"] = failing(lambda: cursor.adbc_ingest("loaded", odd, mode="append"))
        cursor.execute(count + "loaded")
        found["left"] = cursor.fetchone()
    keyed = {"blockstore_ingest": "upsert", "idempotency_key": "once"}
    with connected(url, token, **keyed) as connection, connection.cursor() as cursor:
        found["upsert"] = [cursor.adbc_ingest("items", table, mode="append") for _ in range(2)]
    return found


def by_frames(url: str, token: str, rows: int) -> dict[str, Any]:
    import pandas
    import polars

    found: dict[str, Any] = {}
    with connected(url, token) as connection:
        frame = pandas.read_sql("SELECT n, s FROM flights WHERE n < 3 ORDER BY n", connection)
        found["pandas"] = frame.to_dict("list")
        moments = pandas.to_datetime(["2026-01-01", "2026-01-02"])
        made = pandas.DataFrame({"i": [1, 2], "f": [1.5, None], "s": ["a", None], "t": moments})
        made.to_sql("frames", connection, index=False, if_exists="append")
        again = pandas.read_sql("SELECT * FROM frames ORDER BY i", connection)
        found["pandas again"] = json.loads(again.to_json(orient="values", date_format="iso"))
        read = polars.read_database("SELECT n, s FROM flights WHERE n < 3 ORDER BY n", connection)
        found["polars"] = read.to_dict(as_series=False)
        written = polars.DataFrame({"x": [1, 2], "c": ["a", "b"]})
        written = written.with_columns(polars.col("c").cast(polars.Categorical))
        written.write_database("polar", connection, if_table_exists="append", engine="adbc")
        again = polars.read_database("SELECT x, c FROM polar ORDER BY x", connection)
        found["polars again"] = again.to_dict(as_series=False)
    return found


CLIENTS = {"dbapi": by_dbapi, "ingest": by_ingest, "frames": by_frames}


def main() -> None:
    client, url, token, rows = sys.argv[1:]
    warnings.simplefilter("ignore")
    print(json.dumps(CLIENTS[client](url, token, int(rows)), default=str))


if __name__ == "__main__":
    main()
