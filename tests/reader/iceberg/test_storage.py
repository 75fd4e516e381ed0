"""What the catalog gives to engines to reach the files of a lake, and to which tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from blockstore.reader.iceberg.storage import Storage
from tests.reader.http.gateways import FEW, READ, WRITE, Served, make_lake, serving, settings

TABLE = "/iceberg/v1/namespaces/lake/tables/flights"
READS = {"s3.access-key-id": "reader", "s3.secret-access-key": "r"}
WRITES = {"s3.access-key-id": "writer", "s3.secret-access-key": "w"}


@dataclass(frozen=True)
class Scene:
    served: Served
    read: Path

    def config(self, token: str | None) -> dict[str, str]:
        with self.served.as_(token) as http:
            found = http.get(TABLE)
            assert found.status_code == 200, found.text
            body = found.json()
            config: dict[str, str] = body["config"]
            prefix = body["metadata"]["location"] + "/"
            expected = [{"prefix": prefix, "config": config}] if config else []
            assert body.get("storage-credentials", []) == expected
            return config


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    read, write = tmp_path / "read.json", tmp_path / "write.json"
    read.write_text(json.dumps(READS))
    write.write_text(json.dumps(WRITES))
    asked = settings(make_lake(tmp_path), tmp_path)
    engines = {"lake": Storage(read=read, write=write), "other": Storage(read=write)}
    with serving(replace(asked, engines=engines)) as served:
        yield Scene(served, read)


def test_a_token_gets_the_keys_for_what_it_may_do(scene: Scene) -> None:
    assert scene.config(READ) == READS
    assert scene.config(WRITE) == WRITES
    assert scene.config(FEW) == {}, "a token with a list of tables would get the keys of all files"


def test_keys_that_change_are_given_out_at_once(scene: Scene) -> None:
    with scene.served.as_(READ) as http:
        before = http.get(TABLE).headers["ETag"]
        assert http.get(TABLE, headers={"If-None-Match": before}).status_code == 304
        scene.read.write_text(json.dumps({**READS, "s3.session-token": "t"}))
        found = http.get(TABLE, headers={"If-None-Match": before})
    assert found.status_code == 200
    assert found.json()["config"] == {**READS, "s3.session-token": "t"}


@pytest.mark.parametrize("text", ["", "[]", '{"s3.region": 1}'])
def test_a_file_that_has_none_is_no_table_without_keys(scene: Scene, text: str) -> None:
    scene.read.write_text(text)
    with scene.served.as_(READ) as http:
        found = http.get(TABLE)
    assert found.status_code == 503
    assert "read.json" in found.json()["error"]["message"]
    assert str(scene.read) not in found.text, "a client does not learn where the file is"
    assert scene.config(WRITE) == WRITES


def test_a_gateway_without_tokens_gives_no_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(READS))
    asked = settings(make_lake(tmp_path), tmp_path, tokens=())
    with serving(replace(asked, engines={"lake": Storage(read=keys)})) as served:
        assert served.http.get(TABLE).json()["config"] == {}


def test_a_table_is_not_created_by_a_request_that_fails(scene: Scene) -> None:
    write = scene.read.with_name("write.json")
    write.write_text("")
    new = {"name": "airports", "schema": {"type": "struct", "fields": []}}
    new["schema"]["fields"] = [{"id": 1, "name": "n", "required": False, "type": "long"}]
    tables = "/iceberg/v1/namespaces/lake/tables"
    with scene.served.as_(WRITE) as http:
        assert http.post(tables, json=new).status_code == 503
        assert http.head(f"{tables}/airports").status_code == 404
        write.write_text(json.dumps(WRITES))
        made = http.post(tables, json=new)
    assert made.json()["config"] == WRITES
    assert made.headers["Cache-Control"] == "no-store"
