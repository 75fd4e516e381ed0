"""A pretended gateway: the shapes of the HTTP API over tables in memory, and every fault that a
test wishes for.

It answers SQL by DuckDB, so that what the page shows of types, limits and errors is real. It is for
what a real gateway does not do at a test's wish: wait, refuse, go stale, break off, name things
with markup.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from blockstore.reader.forms.encode import Form, pieces
from blockstore.reader.page import page_routes
from blockstore.service.serving import SecurityHeaders

HOUR = 3_600_000
BEGAN = 1_763_000_000_000
MEDIA = {
    "application/vnd.apache.arrow.stream": "arrow",
    "application/json": "json",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/vnd.apache.parquet": "parquet",
}
ULID = "01JD{:022d}"


def flights(rows: int = 300, day: int = 0) -> pa.Table:
    """Rows like those of the flights of a day."""
    carriers = ["UA", "AA", "DL", "B6"]
    return pa.table(
        {
            "time_hour": pa.array(
                [(BEGAN + day * 24 * HOUR + row * 60_000) * 1000 for row in range(rows)],
                pa.timestamp("us"),
            ),
            "carrier": [carriers[row % 4] for row in range(rows)],
            "flight": pa.array([2**53 + row for row in range(rows)], pa.int64()),
            "dep_delay": pa.array(
                [None if row % 11 == 0 else (row % 90) * 0.5 for row in range(rows)], pa.float64()
            ),
        }
    )


@dataclass(slots=True)
class Pretended:
    """The gateway's state; tests change it as they go."""

    versions: dict[str, list[pa.Table]] = field(
        default_factory=lambda: {"flights": [flights(), flights(600)]}
    )
    tags: dict[str, dict[str, int]] = field(default_factory=lambda: {"flights": {"q3-close": 1}})
    labels: dict[str, str | None] = field(default_factory=dict)
    token: str = ""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    trouble: dict[str, Callable[[Request], Response | None]] = field(default_factory=dict)
    """By path: what is answered instead; None as an answer means: as usual."""
    checking: dict[str, Any] | None = None
    """How far every upload is for good; None: they end at once."""
    gate: dict[str, threading.Event] = field(default_factory=dict)
    """Queries whose SQL holds the key wait until the event is set."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def app(self) -> Starlette:
        """The application, page included."""
        routes = [
            Route("/v1/whoami", self.whoami),
            Route("/v1/tables", self.tables),
            Route("/v1/tables/{name:path}/timeline", self.timeline),
            Route("/v1/tables/{name:path}/history", self.history),
            Route("/v1/tables/{name:path}/statistics", self.statistics),
            Route("/v1/tables/{name:path}/diff", self.diff),
            Route("/v1/tables/{name:path}", self.table),
            Route("/v1/query", self.query, methods=["POST"]),
            Route("/v1/queries", self.queries),
            Route("/v1/jobs", self.list_jobs, methods=["GET"]),
            Route("/v1/jobs", self.post_job, methods=["POST"]),
            Route("/v1/jobs/{id}", self.one_job, methods=["GET"]),
            Route("/v1/jobs/{id}", self.cancel_job, methods=["DELETE"]),
            Route("/v1/jobs/{id}/result", self.job_result, methods=["GET"]),
        ]
        guarded = [
            Route(route.path, self._guarded(route.endpoint), methods=route.methods)
            for route in routes
        ]
        return Starlette(
            routes=[*guarded, *page_routes()], middleware=[Middleware(SecurityHeaders)]
        )

    def _guarded(self, endpoint: Any) -> Any:
        async def guarded(request: Request) -> Response:
            self.seen.append((request.method, str(request.url), dict(request.headers)))
            if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
                return problem(
                    401, "unauthorized", "this gateway wants a token: send Authorization: Bearer …"
                )
            wished = self.trouble.get(request.url.path)
            answer = wished(request) if wished else None
            return answer if answer is not None else await endpoint(request)

        return guarded

    def _summary(self, name: str) -> dict[str, Any]:
        newest = self.versions[name][-1]
        return {
            "name": name,
            "status": "ready",
            "error": None,
            "version": len(self.versions[name]),
            "rows": newest.num_rows,
            "bytes": newest.nbytes,
            "blocks": len(self.versions[name]),
            "staleness_s": 3.2,
        }

    async def whoami(self, request: Request) -> Response:
        return JSONResponse({"name": "a", "scopes": ["read"], "tables": None, "auth": True})

    async def tables(self, request: Request) -> Response:
        return JSONResponse({"tables": [self._summary(name) for name in self.versions]})

    async def table(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.versions:
            return problem(
                404, "unknown_table", f"there is no table {name!r}", nearest=list(self.versions)
            )
        columns = [
            {"name": field.name, "type": str(field.type), "nullable": field.nullable}
            for field in self.versions[name][-1].schema
        ]
        more = {
            "columns": columns,
            "time_column": columns[0]["name"],
            "sort_by": [columns[1]["name"]],
            "labels": self.labels,
        }
        return JSONResponse(
            {**self._summary(name), **more, "tags": self.tags.get(name, {}), "oldest_version": 1}
        )

    async def timeline(self, request: Request) -> Response:
        name = request.path_params["name"]
        size = len(self.versions[name])
        every: dict[str, Any] = {
            "ulid": [ULID.format(place) for place in range(size)],
            "min": [place * 24 * HOUR for place in range(size)],
            "version": list(range(1, size + 1)),
            "no_compact": [],
        }
        for key, value in {
            "stream": 0,
            "level": 1,
            "length": 24 * HOUR,
            "rows": 300,
            "bytes": 9000,
            "sources": 1,
            "state": 0,
            "reason": 0,
        }.items():
            every[key] = [value] * size
        return JSONResponse(
            {
                "table": name,
                "now": BEGAN + 24 * HOUR,
                "version": size,
                "boundary": 0,
                "tags": self.tags.get(name, {}),
                "time_column": "time_hour",
                "count": size,
                "origin": BEGAN,
                "blocks": every,
                "streams": [{"labels": {}, "resolution": 0}],
                "states": ["live"],
                "reasons": [""],
            }
        )

    async def statistics(self, request: Request) -> Response:
        newest = self.versions[request.path_params["name"]][-1]
        columns: list[dict[str, Any]] = [
            {"name": name, "min": "1", "max": "9", "nulls": 0, "nans": 0, "bins": [3, 1, 0, 2]}
            for name in newest.schema.names
        ]
        return JSONResponse({"rows": newest.num_rows, "current": True, "columns": columns})

    async def history(self, request: Request) -> Response:
        name = request.path_params["name"]
        before = int(request.query_params.get("before", 10**9))
        limit = int(request.query_params.get("limit", 100))
        every = [
            {
                "version": place + 1,
                "time": BEGAN + place * HOUR,
                "operation": "append",
                "by": "writer, test",
                "message": "",
                "job": None,
                "added": [ULID.format(place)],
                "removed": [],
                "rows_added": 300,
            }
            for place in range(len(self.versions[name]))
            if place + 1 < before
        ][::-1]
        return JSONResponse({"table": name, "entries": every[:limit], "more": len(every) > limit})

    async def diff(self, request: Request) -> Response:
        low, high = int(request.query_params["from"]), int(request.query_params["to"])
        added, removed = (
            [{"ulid": ULID.format(place), "rows": 300} for place in range(*ends)]
            for ends in ((low, high), (high, low))
        )
        return JSONResponse(
            {
                "table": request.path_params["name"],
                "from": low,
                "to": high,
                "added": added,
                "removed": removed,
                "hidden": {},
                "shown": {},
                "rows": 300 * (high - low),
                "schema_changed": False,
            }
        )

    def _at(self, name: str, body: dict[str, Any]) -> int:
        newest = len(self.versions[name])
        if "tag" in body:
            return self.tags[name][body["tag"]]
        if "as_of" in body:
            return 1
        version = body.get("version", newest)
        return int(version.get(name, newest) if isinstance(version, dict) else version)

    async def query(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        form = MEDIA[request.headers["accept"]]
        for key, event in self.gate.items():
            while key in body["sql"] and not event.is_set():
                if await request.is_disconnected():
                    return Response(status_code=499)
                await _breathe()
        engine = duckdb.connect()
        used = {}
        for name in self.versions:
            if name in body["sql"]:
                used[name] = self._at(name, body)
                engine.register(name, self.versions[name][used[name] - 1])
        sql = body["sql"].rstrip().rstrip(";")
        try:
            found = engine.sql(f"SELECT * FROM ({sql}\n) LIMIT {body.get('limit', 10**9)}")
            # Within brackets DuckDB would give a second column of one name another.
            answer = found.to_arrow_table().rename_columns(engine.sql(sql).columns)
        except duckdb.Error as error:
            line = re.search(r"LINE (\d+): ", str(error))
            place = {"line": int(line[1]), "column": 8} if line else None
            return problem(400, "invalid_sql", str(error), position=place)
        finally:
            engine.close()
        batches = answer.to_batches(max_chunksize=5_000)
        data = b"".join(pieces(Form(form), answer.schema, batches))
        parts = (data[place : place + 200_000] for place in range(0, len(data), 200_000))
        return StreamingResponse(
            parts,
            media_type=request.headers["accept"],
            headers={"X-Blockstore-Versions": json.dumps(used)},
        )

    async def queries(self, request: Request) -> Response:
        return JSONResponse({"queries": []})

    async def list_jobs(self, request: Request) -> Response:
        every = list(reversed(self.jobs.values()))
        asked = request.query_params
        limit, start = int(asked.get("limit", 100)), 0
        if "before" in asked:
            start = 1 + [job["id"] for job in every].index(asked["before"])
        found = every[start : start + limit]
        more = start + limit < len(every)
        return JSONResponse({"jobs": found, "next": found[-1]["id"] if more else None})

    async def post_job(self, request: Request) -> Response:
        job: dict[str, Any] = {
            "id": ULID.format(len(self.jobs)),
            "state": "queued",
            "created": BEGAN,
            "ended": None,
            "table": None,
            "sql": None,
            "format": "csv",
            "attempt": 1,
            "progress": {"rows": 0, "bytes": 0, "bytes_total": None},
            "error": None,
            "written": None,
            "result": None,
        }
        if "table" in request.query_params:
            text = (await request.body()).decode()
            job |= {"kind": "upload", "table": request.query_params["table"]}
            self._upload(job, text.splitlines())
        else:
            job |= await request.json()
        self.jobs[job["id"]] = job
        return JSONResponse(job, status_code=202)

    def _upload(self, job: dict[str, Any], lines: list[str]) -> None:
        if self.checking is not None:
            job |= {"state": "running", "progress": self.checking}
            return
        for number, line in enumerate(lines[1:], start=2):
            value = line.split(",")[-1]
            try:
                float(value)
            except ValueError:
                error = {
                    "error": "invalid",
                    "message": f"line {number}, column dep_delay: {value!r} "
                    "is no number; nothing was written",
                    "line": number,
                    "column": "dep_delay",
                    "value": value,
                    "rule": "a number (double)",
                }
                job |= {"state": "failed", "error": error}
                return
        written = {"ulid": ULID.format(9), "version": 3, "rows": len(lines) - 1, "bytes": 100}
        job |= {"state": "done", "written": written}

    async def one_job(self, request: Request) -> Response:
        return JSONResponse(self.jobs[request.path_params["id"]])

    async def cancel_job(self, request: Request) -> Response:
        job = self.jobs[request.path_params["id"]]
        job["state"] = "cancelled"
        return JSONResponse(job, status_code=202)

    async def job_result(self, request: Request) -> Response:
        return Response(b"a,b\n1,2\n", media_type="text/csv")


async def _breathe() -> None:
    import anyio

    await anyio.sleep(0.02)


def problem(status: int, error: str, message: str, **more: Any) -> Response:
    """An error in the gateway's shape."""
    body = {
        "error": error,
        "message": message,
        "position": None,
        "nearest": [],
        "detail": None,
        "request_id": "R-1",
        **more,
    }
    headers = {"Retry-After": "7"} if status in (429, 503) else {}
    return JSONResponse(body, status_code=status, headers=headers)
