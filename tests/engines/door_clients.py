"""Runs in the environment of the foreign engines: many clients of mixed kinds at the three doors of
one gateway. It prints what each has sent and seen as JSON.

``door_clients.py ASKED``, a JSON file: the doors, the tokens, the rows, how many and how long.

A client sends statements whose rows DuckDB knows from the same file, wrong ones, ones that its
token does not permit, and some that it leaves in the middle. Each has a mark, by which its line in
the audit log is found. What is neither the right answer nor the right refusal is a failure.
"""

from __future__ import annotations

import asyncio
import csv
import http.client
import io
import json
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

MUCH = "SELECT a.n, b.s FROM flights a, flights b"
OVER = ("expired at", "was revoked", "rights of the token")
FULL = "queries at once, its limit"
KINDS = ("arrow", "json", "csv", "adbc", "psycopg", "asyncpg")


@dataclass
class Seen:
    """What one client has sent and seen."""

    kind: str
    token: str
    sent: dict[str, str] = field(default_factory=dict)
    """The outcome that each mark must have."""
    unmarked: int = 0
    """Statements that were refused before the gateway saw their text."""
    wrong: list[str] = field(default_factory=list)
    rows: int = 0
    inserted: list[int] = field(default_factory=list)


class Refused(Exception):
    """The gateway refused a statement; ``ends`` if its token is over."""

    def __init__(self, why: str, *, ends: bool, marked: bool = True) -> None:
        super().__init__(why)
        self.ends = ends
        self.marked = marked


class Failed(Exception):
    """The gateway reported an error of the statement."""


def judged(error: Exception, *, marked: bool = True) -> Exception:
    """The error of a driver, as one of these two."""
    why = str(error)
    if any(one in why for one in OVER):
        return Refused(why, ends=True, marked=marked)
    if FULL in why or "lacks scope" in why:
        return Refused(why, ends=False)
    return Failed(why)


class Http:
    """HTTP in one of its forms."""

    ACCEPT = {
        "arrow": "application/vnd.apache.arrow.stream",
        "json": "application/json",
        "csv": "text/csv",
    }

    def __init__(self, asked: dict[str, Any], token: str, form: str) -> None:
        self._form = form
        self._token = token
        self._to = http.client.HTTPConnection("127.0.0.1", asked["http"], timeout=120)

    def rows(self, sql: str, mark: str) -> list[tuple[str, ...]]:
        response = self._sent("/v1/query", sql, mark)
        data = response.read()
        self._check(response, data)
        if self._form == "arrow":
            table = pa.ipc.open_stream(data).read_all()
            return texts(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if self._form == "json":
            return texts(one.values() for one in json.loads(data))
        return texts(list(csv.reader(io.StringIO(data.decode())))[1:])

    def change(self, sql: str, mark: str) -> None:
        response = self._sent("/v1/statements?wait=60", sql, mark)
        self._check(response, response.read())

    def leave(self, sql: str, mark: str) -> None:
        response = self._sent("/v1/query", sql, mark)
        if response.status != 200:
            self._check(response, response.read())
        response.read(1000)
        self.close()

    def close(self) -> None:
        self._to.close()

    def _sent(self, path: str, sql: str, mark: str) -> http.client.HTTPResponse:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": self.ACCEPT[self._form] if path == "/v1/query" else "application/json",
            "X-Request-Id": mark,
        }
        self._to.request("POST", path, json.dumps({"sql": sql}), headers)
        return self._to.getresponse()

    def _check(self, response: http.client.HTTPResponse, data: bytes) -> None:
        if response.status != 200:
            raise judged(RuntimeError(data.decode(errors="replace")))


class Adbc:
    """Flight SQL by its ADBC driver."""

    def __init__(self, asked: dict[str, Any], token: str, form: str) -> None:
        from adbc_driver_flightsql import dbapi

        header = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
        self._to = dbapi.connect(asked["flight"], db_kwargs=header, autocommit=True)

    def rows(self, sql: str, mark: str) -> list[tuple[str, ...]]:
        cursor = self._to.cursor()
        try:
            cursor.execute(sql)
            return texts(cursor.fetchall())
        except Exception as error:
            raise judged(error, marked=False) from error
        finally:
            quietly(cursor.close)

    change = rows

    def leave(self, sql: str, mark: str) -> None:
        cursor = self._to.cursor()
        try:
            cursor.execute(sql)
            cursor.fetchone()
            cursor.adbc_cancel()
        except Exception as error:
            raise judged(error, marked=False) from error
        finally:
            quietly(cursor.close)

    def close(self) -> None:
        quietly(self._to.close)


class Psycopg:
    """PostgreSQL's protocol by psycopg."""

    def __init__(self, asked: dict[str, Any], token: str, form: str) -> None:
        import psycopg

        place = f"host=127.0.0.1 port={asked['postgres']} user=me dbname=lake"
        try:
            self._to = psycopg.connect(f"{place} password={token}", autocommit=True)
        except psycopg.Error as error:
            raise judged(error, marked=False) from error

    def rows(self, sql: str, mark: str) -> list[tuple[str, ...]]:
        try:
            return texts(self._to.execute(sql).fetchall())
        except Exception as error:
            raise judged(error) from error

    def change(self, sql: str, mark: str) -> None:
        try:
            self._to.execute(sql)
        except Exception as error:
            raise judged(error) from error

    def leave(self, sql: str, mark: str) -> None:
        try:
            for _ in self._to.cursor().stream(sql):
                break
        except Exception as error:
            raise judged(error) from error
        self.close()

    def close(self) -> None:
        quietly(self._to.close)


class Asyncpg:
    """PostgreSQL's protocol by asyncpg: binary, prepared."""

    def __init__(self, asked: dict[str, Any], token: str, form: str) -> None:
        import asyncpg

        self._loop = asyncio.new_event_loop()
        made = asyncpg.connect(
            host="127.0.0.1", port=asked["postgres"], user="me", password=token, database="lake",
            ssl=False, statement_cache_size=0,
        )  # fmt: skip
        try:
            self._to = self._loop.run_until_complete(made)
        except Exception as error:
            self._loop.close()
            raise judged(error, marked=False) from error

    def rows(self, sql: str, mark: str) -> list[tuple[str, ...]]:
        return texts(tuple(one) for one in self._run(lambda: self._to.fetch(sql)))

    def change(self, sql: str, mark: str) -> None:
        self._run(lambda: self._to.execute(sql))

    def leave(self, sql: str, mark: str) -> None:
        began = had = False

        async def first() -> None:
            nonlocal began, had
            async with self._to.transaction():
                began = True
                async for _ in self._to.cursor(sql, prefetch=10):
                    had = True
                    return

        try:
            self._loop.run_until_complete(first())
        except Exception as error:
            # BEGIN has no mark; and where COMMIT is refused, the rows were there before.
            found = judged(error, marked=began)
            if not had or not isinstance(found, Refused):
                raise found from error

    def close(self) -> None:
        quietly(self._to.terminate)
        quietly(self._loop.close)

    def _run(self, call: Callable[[], Any]) -> Any:
        try:
            return self._loop.run_until_complete(call())
        except Exception as error:
            raise judged(error) from error


def quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        return


def texts(rows: Any) -> list[tuple[str, ...]]:
    return [tuple(map(str, one)) for one in rows]


MADE = {"adbc": Adbc, "psycopg": Psycopg, "asyncpg": Asyncpg}


def questions(path: str, count: int) -> dict[str, list[tuple[str, ...]]]:
    """Queries, and the rows that DuckDB has for them."""
    own = duckdb.connect()
    own.execute(f"CREATE TABLE flights AS SELECT n, s FROM '{path}'")
    made = []
    for at in range(2, 22):
        made += [
            f"SELECT count(*) AS c, sum(n)::BIGINT AS t FROM flights WHERE n % {at} = 1",
            f"SELECT n, s FROM flights WHERE n BETWEEN {at * 31} AND {at * 31 + 400} ORDER BY n",
            f"SELECT n % {at} AS g, count(*) AS c, min(s) AS s FROM flights GROUP BY 1 ORDER BY 1",
        ]
    made.append("SELECT n, s FROM flights ORDER BY n")
    return {sql: texts(own.execute(sql).fetchall()) for sql in made}


def act(
    asked: dict[str, Any], seen: Seen, known: dict[str, list[tuple[str, ...]]], place: int
) -> None:
    """One client, until the time is over."""
    choose = random.Random(asked["seed"] * 1000 + place)
    client: Any = None
    ends, over = time.monotonic() + asked["seconds"], 0
    number = 0
    secret = asked["tokens"][seen.token]
    while time.monotonic() < ends and over < 8:
        number += 1
        mark = f"m{place}-{number}."
        lot = 0.36 if number == 2 and place % 5 == 0 else choose.random()
        try:
            if client is None:
                client = MADE.get(seen.kind, Http)(asked, secret, seen.kind)
            if seen.token == "writer" and lot < 0.25:
                one = place * 100_000 + number
                client.change(f"INSERT INTO notes VALUES ({one}, 'x') /* {mark} */", mark)
                seen.inserted.append(one)
                seen.sent[mark] = "ok"
            elif lot < 0.30:
                client.rows(f"SELECT nothing FROM flights /* {mark} */", mark)
                seen.wrong.append(f"{mark} a wrong statement was answered")
            elif lot < 0.35 and seen.token != "writer":
                client.change(f"DELETE FROM notes WHERE id = 1 /* {mark} */", mark)
                seen.wrong.append(f"{mark} a reader changed rows")
            elif lot < 0.37:
                client.leave(f"{MUCH} /* {mark} */", mark)
                # A cursor of a transaction is closed by its client, who had what it wanted.
                seen.sent[mark] = "ok" if seen.kind == "asyncpg" else "cancelled"
                client.close()
                client = None
            else:
                sql, expected = choose.choice(list(known.items()))
                found = client.rows(f"{sql} /* {mark} */", mark)
                seen.sent[mark] = "ok"
                seen.rows += len(found)
                if found != expected:
                    seen.wrong.append(f"{mark} {sql}: {found[:3]} and not {expected[:3]}")
        except Refused as error:
            if error.marked or not error.ends:
                seen.sent[mark] = "refused"
            else:
                seen.unmarked += 1
            time.sleep(0.05)
            if error.ends:
                over += 1
                client = client and client.close()
                time.sleep(0.1)
        except Failed as error:
            seen.sent[mark] = "error"
            if "nothing" not in str(error):
                seen.wrong.append(f"{mark} {str(error)[:300]}")
        except Exception as error:
            seen.wrong.append(f"{mark} {type(error).__name__}: {str(error)[:300]}")
            client = client and client.close()
    if client is not None:
        client.close()


def main() -> None:
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        asked = json.load(file)
    known = questions(asked["rows"], 60)
    names = asked["shares"]
    all_seen = [
        Seen(kind=KINDS[at % len(KINDS)], token=names[(at // len(KINDS)) % len(names)])
        for at in range(asked["clients"])
    ]
    threads = [
        threading.Thread(target=act, args=(asked, one, known, at))
        for at, one in enumerate(all_seen)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(asked["seconds"] + 150)
    stuck = [at for at, thread in enumerate(threads) if thread.is_alive()]
    json.dump({"stuck": stuck, "seen": [asdict(one) for one in all_seen]}, sys.stdout)
    sys.stdout.flush()
    if stuck:
        import os

        os._exit(1)


if __name__ == "__main__":
    main()
