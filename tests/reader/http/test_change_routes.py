"""The changes of a table over HTTP: in every form, by a long poll, as events that resume."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.http import change_routes
from blockstore.reader.http.problems import Refusal
from blockstore.table import Table
from tests.reader.http.gateways import READ, Served, make_lake, serving, settings

SCHEMA = pa.schema([("sku", pa.string()), ("n", pa.int64())])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("changes")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def table(served: Served, request: pytest.FixtureRequest) -> Table:
    """A table with a key and versions 2 (two rows), 3 (an update) and 4 (a deletion)."""
    name = f"items_{abs(hash(request.node.name))}"
    lake, _, query = served.gateway.settings.tables.urls[0].partition("?")
    made = bs.create(f"{lake}/{name}?{query}", schema=SCHEMA, key="sku")
    put(made, a=1, b=2)
    put(made, a=3)
    made.delete_rows(["b"])
    served.gateway.tables.poll_now()
    return made


def put(table: Table, **counts: int) -> None:
    table.upsert(pa.table({"sku": list(counts), "n": list(counts.values())}, SCHEMA))


def lines(answer: httpx.Response) -> list[tuple[Any, ...]]:
    rows = [json.loads(line) for line in answer.text.splitlines()]
    return [(row["_version"], row["_change"], row["sku"], row["n"]) for row in rows]


def test_changes_come_in_the_form_that_accept_selects(served: Served, table: Table) -> None:
    with served.as_(READ) as client:
        path = f"/v1/tables/{table.name}/changes"
        answer = client.get(path, params={"after": 0}, headers={"Accept": "application/x-ndjson"})
        assert answer.headers["x-blockstore-until"] == "4"
        assert lines(answer) == [
            (2, "insert", "a", 1),
            (2, "insert", "b", 2),
            (3, "update", "a", 3),
            (4, "delete", "b", 2),
        ]
        found = client.get(path, params={"after": 2, "until": 3, "before_images": True})
        rows = pa.ipc.open_stream(found.content).read_all().to_pylist()
        assert [(row["_change"], row["n"]) for row in rows] == [("update_before", 1), ("update", 3)]
        text = client.get(path, params={"after": 3}, headers={"Accept": "text/csv"}).text
        assert text.splitlines()[0].startswith('"_change","_version"')
        assert len(text.splitlines()) == 2


def test_a_version_that_never_was_or_is_no_number_is_refused(served: Served, table: Table) -> None:
    with served.as_(READ) as client:
        path = f"/v1/tables/{table.name}/changes"
        assert client.get(path, params={"after": 9}).status_code == 404
        assert client.get(path).status_code == 400
        assert client.get(path, params={"after": -1}).status_code == 400
        assert client.get(path, params={"after": 0, "wait": "2h"}).status_code == 400
        assert client.get(path, params={"after": 0, "wait": "x"}).status_code == 400
        assert client.get(path, params={"after": 0, "wait": "²"}).status_code == 400
        assert client.get(path, params={"after": 0, "wait": "9" * 5_000}).status_code == 400
        digits = {"Last-Event-ID": "9" * 5_000}
        assert client.get(path, params={}, headers=digits).status_code == 400
        assert client.get(
            f"/v1/tables/{table.name}", params={"as_of": "9" * 5_000}
        ).status_code == (400)
        assert client.get("/v1/tables/none/changes", params={"after": 0}).status_code == 404


def test_a_long_poll_answers_once_there_is_a_newer_version(served: Served, table: Table) -> None:
    with served.as_(READ) as client:
        path = f"/v1/tables/{table.name}/changes"
        form = {"Accept": "application/x-ndjson"}
        none = client.get(path, params={"after": 4, "wait": "200ms"}, headers=form)
        assert (none.text, none.headers["x-blockstore-until"]) == ("", "4")
        timer = threading.Timer(0.3, put, [table], {"c": 5})
        timer.start()
        some = client.get(path, params={"after": 4, "wait": "30"}, headers=form)
        timer.join()
        assert lines(some) == [(5, "insert", "c", 5)]


def test_events_have_the_id_of_each_complete_version_and_resume_after_it(
    served: Served, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_routes, "_EVENT_ROWS", 1)
    path = f"/v1/tables/{table.name}/changes"
    accept = {"Accept": "text/event-stream"}
    with served.as_(READ) as client:
        with client.stream("GET", path, params={"after": 0}, headers=accept) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = read_events(answer.iter_lines())
            seen = [next(events) for _ in range(5)]
            assert [(one, versions(data)) for one, data in seen] == [
                (None, [2]),
                ("2", [2]),
                ("3", [3]),
                ("4", [4]),
                ("4", 4),
            ]
            put(table, d=7)
            assert [(one, versions(data)) for one, data in [next(events), next(events)]] == [
                ("5", [5]),
                ("5", 5),
            ]
        again = {**accept, "Last-Event-ID": "3"}
        given = {"after": 0, "until": 5}
        with client.stream("GET", path, params=given, headers=again) as answer:
            rest = list(read_events(answer.iter_lines()))
    assert [one for one, _ in rest] == ["4", "5", "5"], "it ends after the last version asked for"


def test_followers_beyond_the_limit_are_refused_and_places_are_left(
    served: Served, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_routes, "_places", threading.BoundedSemaphore(1))
    path = f"/v1/tables/{table.name}/changes"
    accept = {"Accept": "text/event-stream"}
    with served.as_(READ) as client:
        with client.stream("GET", path, params={"after": 4}, headers=accept) as answer:
            events = answer.iter_lines()
            next(events)
            refused = client.get(path, params={"after": 4, "wait": "1s"})
            assert refused.status_code == 429, refused.text
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
            assert client.get(path, params={"after": 3}).status_code == 200, "it does not wait"
        assert change_routes._places.acquire(timeout=20), "the place is left"
        change_routes._places.release()
        assert client.get(path, params={"after": 9, "wait": "10ms"}).status_code == 404
        assert client.get(path, params={"after": 4, "wait": "10ms"}).status_code == 200


def test_the_client_reads_changes_and_continues(served: Served, table: Table) -> None:
    with bs.Client(served.url, READ) as client:
        found = client.changes(table.name, 2, before_images=True)
        kinds = found.to_arrow()["_change"].to_pylist()
        assert kinds == ["update_before", "update", "delete"]
        assert found.until == 4
        assert client.changes(table.name, found.until, wait_s=0.1).to_arrow().num_rows == 0
        with client.changes(table.name, 0, 2).stream() as reader:
            assert reader.read_all().num_rows == 2
        with pytest.raises(bs.NotFound):
            client.changes(table.name, 9).to_arrow()


def read_events(text: Iterator[str]) -> Iterator[tuple[str | None, str]]:
    """Each event's id, where it has one, and its data."""
    number: str | None = None
    data: list[str] = []
    for line in text:
        if line.startswith("id: "):
            number = line[4:]
        elif line.startswith("data: "):
            data.append(line[6:])
        elif not line and data:
            yield number, "\n".join(data)
            number, data = None, []


def versions(data: str) -> Any:
    found = [json.loads(line) for line in data.splitlines()]
    return (
        found[0]
        if found == [*filter(lambda one: isinstance(one, int), found)]
        else [row["_version"] for row in found]
    )


def test_who_follows_a_table_that_changes_all_the_time_is_asked_for_its_token(
    served: Served, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is waited for there."""
    gone: list[bool] = []

    def check(*_: object) -> None:
        if gone:
            raise Refusal("the token was taken away")

    monkeypatch.setattr(change_routes, "check_still", check)
    caller = served.gateway.gate.caller(f"Bearer {READ}")
    reader = change_routes._Reader(
        served.gateway, table.name, caller, None, images=False, follows=False
    )
    events = reader.events(reader.begin(0, 0.0))
    for event in events:
        if b"event: version" in event:
            break
    put(table, c=1)
    gone.append(True)
    with pytest.raises(Refusal):
        next(events)


def test_events_are_refused_to_http_1_0(served: Served, table: Table) -> None:
    place = urlsplit(served.url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as wire:
        wire.sendall(
            f"GET /v1/tables/{table.name}/changes?after=0 HTTP/1.0\r\nHost: x\r\nAccept: "
            f"text/event-stream\r\nAuthorization: Bearer {READ}\r\n\r\n".encode()
        )
        with wire.makefile("rb") as answer:
            assert b" 505 " in answer.readline()
            assert b"use HTTP/1.1" in answer.read()
