"""Superset and dbt at a gateway's Postgres door, doing what their users do first.

    scripts/setup --bi --browser
    python -m tests.engines.bi.run

Both live in environments of their own. What docs/guides/bi.md prints for dbt is what runs here.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pyarrow as pa
from playwright.sync_api import expect, sync_playwright

import blockstore as bs
from blockstore.reader.http.tokens import ANYONE
from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import WRITE, make_lake, settings
from tests.repo.fenced import blocks
from tests.support.browser import ARGUMENTS, chromium
from tests.support.interrupts import hear

ROOT = Path(__file__).parents[3]
SUPERSET = ROOT / ".bi-venvs" / "superset" / "bin" / "superset"
DBT = ROOT / ".bi-venvs" / "dbt" / "bin" / "dbt"
PICTURES = ROOT / ".scratch" / "bi"
"""Where screenshots of SQL Lab's page are left, for people to look at."""
ROWS = 1_000
DAY_US = 86_400_000_000
ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("state", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)
STATES = ("open", "paid", "sent")
BY_STATE = "select state, count(*) as n, sum(amount) as total from orders group by state order by 1"
TOTALS = {
    state: sum(1.5 * number for number in range(place, ROWS, 3))
    for place, state in enumerate(STATES)
}
PATIENCE_S = 240.0
UPGRADE_S = 900.0
MANY = 1_000_000
MILLION = f"select i as n, 'row ' || i as s from range({MANY}) t(i)"
# SQL Lab parses a statement as PostgreSQL's before it sends it, and knows no 100_000 there.
SLOW = "select count(*) as n from range(100000000000) t(i) where mod(i, 7) = 3"

PROJECT = """
name: shop
profile: shop
model-paths: [models]
seed-paths: [seeds]
macro-paths: [macros]
models: {shop: {+materialized: blockstore_table}}
"""
SOURCES = """
sources:
  - name: shop
    schema: public
    tables:
      - name: orders
        columns:
          - {name: id, data_tests: [unique, not_null]}
          - name: state
            data_tests: [{accepted_values: {arguments: {values: [open, paid, sent]}}}]
models:
  - name: totals
    columns: [{name: state, data_tests: [unique, not_null]}]
"""
MODEL = """select state, count(*) as n, sum(amount) as amount
from {{ source('shop', 'orders') }} group by state"""


def main() -> int:
    """Run both; say what was done."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "bi").mkdir()
        asked = settings(make_lake(folder), folder)
        orders = bs.create(f"{folder}/lake/orders?durable=false", schema=ORDERS, key=["id"])
        columns = {
            "id": range(ROWS),
            "state": [STATES[number % 3] for number in range(ROWS)],
            "amount": [1.5 * number for number in range(ROWS)],
            "at": [1_764_028_800_000_000 + number * DAY_US // 24 for number in range(ROWS)],
        }
        orders.upsert(pa.table({name: list(one) for name, one in columns.items()}, schema=ORDERS))
        with three(asked, folder / "audit.jsonl") as doors:
            done = [*dbt(doors, folder / "bi"), *superset(doors, folder / "bi")]
    print(f"bi: {len(done)} acts of Superset and dbt: {', '.join(done)}")
    return 0


def until(holds: Callable[[], bool], patience_s: float) -> bool:
    """Whether it comes to hold within that time."""
    end_s = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True


def table(doors: Three, name: str) -> bs.Table:
    """A table of the lake, as it is now."""
    return bs.open(f"{doors.gateway.settings.tables.urls[0].partition('?')[0]}/{name}")


# dbt


def dbt(doors: Three, folder: Path) -> Iterator[str]:
    """Check sources, load a seed, and run and test a model twice."""
    profile, macro = (block.text for block in blocks("docs/guides/bi.md")[1:])
    for name, text in {
        "dbt_project.yml": PROJECT,
        "profiles.yml": profile.replace("gateway", "127.0.0.1")
        .replace("5432", str(doors.postgres.port))
        .replace("bsk_…", WRITE),
        "macros/blockstore_table.sql": macro,
        "models/sources.yml": SOURCES,
        "models/totals.sql": MODEL,
        "seeds/countries.csv": "code,name\nde,Germany\nfr,France\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    _dbt(folder, "debug", "All checks passed!")
    yield "dbt debug"
    _dbt(folder, "test --select source:*", "PASS=3 WARN=0 ERROR=0")
    yield "sources tested"
    _dbt(folder, "seed", "PASS=1 WARN=0 ERROR=0")
    yield "a seed loaded"
    names = table(doors, "countries").snapshot().scan(columns=["name"]).to_table()
    assert sorted(names["name"].to_pylist()) == ["France", "Germany"]
    for version in (2, 3):
        _dbt(folder, "run", "PASS=1 WARN=0 ERROR=0")
        yield "a model run"
        made = table(doors, "totals")
        assert made.log.state.version == version
        rows = made.snapshot().scan().to_table().to_pylist()
        assert {row["state"]: row["amount"] for row in rows} == TOTALS
        table(doors, "orders").set_cells([{"id": 0, "state": "open", "amount": 0.0}])
    _dbt(folder, "test", "PASS=5 WARN=0 ERROR=0")
    yield "all tested"
    _dbt(folder, "docs generate", "Catalog written")
    catalog = orjson.loads((folder / "target" / "catalog.json").read_bytes())
    tables = {**catalog["nodes"], **catalog["sources"]}
    columns = {name.rpartition(".")[2]: list(one["columns"]) for name, one in tables.items()}
    assert columns["orders"] == ["id", "state", "amount", "at"], columns
    assert {"orders", "totals", "countries"} <= columns.keys()
    yield "docs generated, with tables and columns"
    asked = "select id from public.orders where state = '{{ var('s') }}' and id < {{ var('n') }}"
    shown = "show --quiet --output json --inline"
    given = ["--vars", "{s: paid, n: 6}"]
    rows = orjson.loads(_dbt(folder, shown, '"show"', asked, *given))["show"]
    assert sorted(row["id"] for row in rows) == [1, 4]
    yield "a query with variables"
    _dbt(folder, "show --inline", "nope", "select nope from public.orders")
    _dbt(folder, "show --inline", "there is no table nowhere", "select * from public.nowhere")
    yield "readable errors"
    shown = "show --quiet --output json --limit -1 --inline"
    rows = orjson.loads(_dbt(folder, shown, '"row 999999"', MILLION))["show"]
    assert len(rows) == MANY
    assert sum(row["n"] for row in rows) == MANY * (MANY - 1) // 2
    yield "a million rows shown"
    mark = "dbt-is-interrupted"
    with _dbt_begun(folder, "show --inline", f"{SLOW} and '{mark}' <> ''") as process:
        _runs(doors, mark)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    _cancelled(doors, mark)
    _dbt(folder, "debug", "All checks passed!")
    yield "a query ended by Ctrl-C"


def _runs(doors: Three, mark: str, over: Callable[[], str] = str) -> None:
    """Wait until the query with a mark runs, and a second more. ``over`` has what its client said
    if it ended already, so that a query that never came here is seen at once."""
    known = doors.gateway.queries

    def runs() -> bool:
        return any(mark in one.sql for one in known.seen_by(ANYONE))

    assert until(lambda: runs() or over() != "", PATIENCE_S), "the query never came"
    assert runs(), over()
    time.sleep(1)


def _cancelled(doors: Three, mark: str) -> None:
    """The only query of the gateway is over, and the audit log says that it was cancelled."""
    assert until(lambda: doors.gateway.engine.running() == 0, PATIENCE_S), "it still runs"
    outcomes = [one["outcome"] for one in doors.about(mark)]
    assert outcomes == ["cancelled"], doors.lines()[-3:]


def _dbt(folder: Path, verb: str, says: str, *words: str) -> str:
    """Run a verb of dbt, which must say this; all that it says."""
    with _dbt_begun(folder, verb, *words) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert says in said, said[-3000:]
    return said


def _dbt_begun(folder: Path, verb: str, *words: str) -> subprocess.Popen[str]:
    env = {
        **os.environ,
        "DBT_PROFILES_DIR": str(folder),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DO_NOT_TRACK": "1",
    }
    return subprocess.Popen(
        [DBT, "--no-use-colors", *verb.split(), *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=hear,
    )


# Superset


def superset(doors: Three, folder: Path) -> Iterator[str]:
    """Add the lake as a database; read tables, charts and SQL Lab, by its API and in its page."""
    with _superset(folder) as url, httpx.Client(base_url=url, timeout=PATIENCE_S) as http:
        login = {"username": "admin", "password": "admin", "provider": "db"}
        token = _ok(http.post("/api/v1/security/login", json=login))["access_token"]
        http.headers["Authorization"] = f"Bearer {token}"
        uri = f"postgresql+psycopg2://me:{WRITE}@127.0.0.1:{doors.postgres.port}/lake"
        body = {"database_name": "lake", "sqlalchemy_uri": uri, "allow_dml": True}
        database = _ok(http.post("/api/v1/database/", json=body))["id"]
        yield "a database added"
        found = _ok(http.get(f"/api/v1/database/{database}/tables/?q=(schema_name:public)"))
        assert {"orders", "totals"} <= {one["value"] for one in found["result"]}
        yield "tables listed"
        body = {"database": database, "schema": "public", "table_name": "orders"}
        dataset = _ok(http.post("/api/v1/dataset/", json=body))["id"]
        read = _ok(http.get(f"/api/v1/dataset/{dataset}"))["result"]["columns"]
        assert {one["column_name"]: one["is_dttm"] for one in read} == {
            "id": False,
            "state": False,
            "amount": False,
            "at": True,
        }
        yield "a dataset made"
        yield from _charts(http, dataset)
        yield from _lab(http, doors, database)
        yield from _page(url, doors, database)


@contextmanager
def _superset(folder: Path) -> Iterator[str]:
    """Superset on a port, with a user ``admin``."""
    config = folder / "superset_config.py"
    config.write_text(
        f"SECRET_KEY = {'x' * 48!r}\n"
        f"SQLALCHEMY_DATABASE_URI = 'sqlite:///{folder}/superset.db'\n"
        "WTF_CSRF_ENABLED = False\nTALISMAN_ENABLED = False\n"
        # As it comes, SQL Lab fetches 100,000 rows, shows 10,000 of them, and gives up after 30 s.
        f"SQL_MAX_ROW = {MANY}\nDISPLAY_MAX_ROW = {MANY}\nSQLLAB_TIMEOUT = {PATIENCE_S:.0f}\n"
    )
    env = {**os.environ, "SUPERSET_CONFIG_PATH": str(config), "FLASK_APP": "superset"}
    user = "--username admin --firstname a --lastname b --email a@b.c --password admin"
    for words in ("db upgrade", f"fab create-admin {user}", "init"):
        subprocess.run(
            [SUPERSET, *words.split()], env=env, check=True, capture_output=True, timeout=UPGRADE_S
        )
    port = _free_port()
    with open(folder / "superset.log", "wb") as log:
        process = subprocess.Popen(
            [SUPERSET, "run", "-p", str(port)], env=env, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s and process.poll() is None:
            try:
                if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _ok(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, (str(answer.url), answer.text[:2000])
    found: dict[str, Any] = answer.json()
    return found


def _charts(http: httpx.Client, dataset: int) -> Iterator[str]:
    total = {
        "expressionType": "SIMPLE",
        "column": {"column_name": "amount"},
        "aggregate": "SUM",
        "label": "total",
    }
    rows = _chart(http, dataset, {"columns": ["state"], "metrics": [total]})
    assert {row["state"]: row["total"] for row in rows} == TOTALS
    yield "a chart by groups"
    axis = {
        "timeGrain": "P1D",
        "columnType": "BASE_AXIS",
        "sqlExpression": "at",
        "label": "at",
        "expressionType": "SQL",
    }
    rows = _chart(
        http,
        dataset,
        {
            "columns": [axis],
            "granularity": "at",
            "time_range": "2025-11-25 : 2025-12-05",
            "metrics": ["count"],
            "filters": [{"col": "state", "op": "IN", "val": ["open", "paid"]}],
        },
    )
    assert [row["count"] for row in rows] == [16] * 10
    yield "a chart over time"


def _chart(http: httpx.Client, dataset: int, query: dict[str, Any]) -> list[dict[str, Any]]:
    body = {
        "datasource": {"id": dataset, "type": "table"},
        "queries": [{**query, "row_limit": 1_000}],
        "result_format": "json",
        "result_type": "full",
    }
    found: list[dict[str, Any]] = _ok(http.post("/api/v1/chart/data", json=body))["result"][0][
        "data"
    ]
    return found


def _lab(http: httpx.Client, doors: Three, database: int) -> Iterator[str]:
    def sent(sql: str, *, limit: int = 100, key: str = "") -> httpx.Response:
        body = {
            "database_id": database,
            "sql": sql,
            "schema": "public",
            "runAsync": False,
            "queryLimit": limit,
            "client_id": key or os.urandom(5).hex(),
            "tab": "t",
            "sql_editor_id": "1",
        }
        return http.post("/api/v1/sqllab/execute/", json=body)

    rows = _ok(sent(BY_STATE))["data"]
    assert {row["state"]: row["total"] for row in rows} == TOTALS
    yield "a query in SQL Lab"
    _ok(sent("update orders set amount = 7.25 where id = 999"))
    (row,) = table(doors, "orders").snapshot().scan(where="id = 999").to_table().to_pylist()
    assert row["amount"] == 7.25
    _ok(sent("update orders set amount = 1498.5 where id = 999"))
    yield "an update in SQL Lab"
    assert "there is no table nowhere" in sent("select * from nowhere").text
    yield "a readable error"
    rows = _ok(sent(MILLION, limit=MANY))["data"]
    assert (len(rows), rows[-1]) == (MANY, {"n": MANY - 1, "s": f"row {MANY - 1}"})
    yield "a million rows in SQL Lab"
    mark, key = "lab-is-stopped", "stopped-one"
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(sent, f"{SLOW} and '{mark}' <> ''", key=key)
        _runs(doors, mark, over=lambda: asked.result().text if asked.done() else "")
        _ok(http.post("/api/v1/query/stop", json={"client_id": key}))
        _cancelled(doors, mark)
        # Superset says "stopped", or the database's error if that comes before its own note of it.
        answer = asked.result(PATIENCE_S)
        said = answer.json()["status"] if answer.is_success else answer.text
        assert said == "stopped" or "the query was canceled" in said, said
    assert _ok(sent("select 1 as one"))["data"] == [{"one": 1}]
    yield "a query stopped in SQL Lab"


def _page(url: str, doors: Three, database: int) -> Iterator[str]:
    with sync_playwright() as playwright:
        PICTURES.mkdir(parents=True, exist_ok=True)
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{url}/login/")
        page.fill("#username", "admin")
        page.fill("#password", "admin")
        page.keyboard.press("Enter")
        expect(page.get_by_text("SQL", exact=True).first).to_be_visible(timeout=60_000)
        asked = f"dbid={database}&schema=public&autorun=true&sql={quote(BY_STATE)}"
        page.goto(f"{url}/sqllab/?{asked}")
        for state, total in TOTALS.items():
            row = page.get_by_role("row").filter(has_text=state)
            expect(row).to_contain_text(str(total).removesuffix(".0"), timeout=60_000)
        yield "SQL Lab's page"
        mark = "page-is-stopped"
        sql = f"{SLOW} and '{mark}' <> ''"
        asked = f"dbid={database}&schema=public&autorun=true&sql={quote(sql)}"
        page.goto(f"{url}/sqllab/?{asked}")
        _runs(doors, mark)
        page.screenshot(path=PICTURES / "runs.png")
        page.get_by_role("button", name="Stop").first.click()
        _cancelled(doors, mark)
        expect(page.get_by_role("button", name="Stop")).to_have_count(0, timeout=60_000)
        page.screenshot(path=PICTURES / "stopped.png")
        asked = f"dbid={database}&schema=public&autorun=true&sql={quote(BY_STATE)}"
        page.goto(f"{url}/sqllab/?{asked}")
        paid = page.get_by_role("row").filter(has_text="paid")
        expect(paid.first).to_be_visible(timeout=60_000)
        page.screenshot(path=PICTURES / "after.png")
        browser.close()
    yield "a query stopped in its page"


if __name__ == "__main__":
    missing = [str(one) for one in (SUPERSET, DBT) if not shutil.which(one)]
    if missing:
        sys.exit(f"bi: {', '.join(missing)} is not there: run scripts/setup --bi --browser")
    sys.exit(main())
