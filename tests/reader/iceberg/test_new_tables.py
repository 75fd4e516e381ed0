"""Tables that engines create together with their first rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import Bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import Unavailable
from blockstore.export.iceberg.manifests import DataFile
from blockstore.format.identity import Key
from blockstore.reader.http.shapes import TableBody
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.iceberg.commits.commit import KEEP
from blockstore.reader.iceberg.commits.wanted import NOTHING
from blockstore.reader.iceberg.creating import body_of
from blockstore.reader.jobs.bodies import definition_of
from blockstore.world import World
from tests.reader.http.gateways import READ, TOKENS, Served, make_lake, serving, settings
from tests.reader.iceberg.foreign import Engine, with_ids
from tests.reader.iceberg.test_creating import DEFINER, NEW, TABLES, send

MAKER = "bsk_maker"
PLAIN = {
    **NEW,
    "stage-create": True,
    "schema": {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 7, "name": "at", "required": False, "type": "timestamptz"},
            {"id": 9, "name": "n", "required": False, "type": "long"},
        ],
    },
    "write-order": {
        "order-id": 1,
        "fields": [
            {"transform": "identity", "source-id": 9, "direction": "asc",
             "null-order": "nulls-last"},
        ],
    },
}  # fmt: skip
ROWS = pa.table({"at": pa.array([0, 1, 2], pa.timestamp("us", "UTC")), "n": [3, 1, 2]})


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    made = {
        DEFINER: frozenset({Scope.READ, Scope.DDL}),
        MAKER: frozenset({Scope.READ, Scope.DDL, Scope.WRITE}),
    }
    tokens = [
        Token(name=one.removeprefix("bsk_"), sha256=hashed(one), scopes=scopes)
        for one, scopes in made.items()
    ]
    with serving(
        replace(settings(make_lake(tmp_path), tmp_path), tokens=(*TOKENS, *tokens))
    ) as served:
        yield served


@dataclass
class _Table:
    """What an engine has of a table that is not there."""

    bucket: Bucket
    definition: Any
    world: World = field(default_factory=World.real)


@dataclass
class Maker(Engine):
    """An engine that has asked what a table would be."""

    def loaded_again(self) -> None:
        self.base = 1

    def making(self, *files: DataFile, **changes: Any) -> dict[str, Any]:
        """The body of the commit that makes the table with these files, as Iceberg's Java code
        sends it."""
        document = {**self.exported, **changes}
        (schema,), (order,) = document["schemas"], document["sort-orders"]
        made: list[dict[str, Any]] = [
            {"action": "assign-uuid", "uuid": document["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": document["partition-specs"][0]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": order},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": document["location"]},
            {"action": "set-properties", "updates": document["properties"]},
        ]
        if files:
            body = self.append(*files)
            body["updates"][0]["snapshot"].pop("parent-snapshot-id")
            made += body["updates"]
        return {"requirements": [{"type": "assert-create"}], "updates": made}

    def before(self) -> list[str]:
        return []


def staged(served: Served, asked: dict[str, Any] = PLAIN) -> Maker:
    found = send(served, "POST", TABLES, asked, by=MAKER)
    assert found.status_code == 200, found.text
    assert found.json().get("metadata-location") is None
    bucket = Prefixed(served.gateway.lake, "made")
    made = _Table(bucket, definition_of(TableBody.model_validate(body_of(asked)).model_dump()))
    return Maker(table=made, exported=found.json()["metadata"])  # type: ignore[arg-type]


def commit(served: Served, body: dict[str, Any], *, by: str = MAKER) -> Any:
    return send(served, "POST", f"{TABLES}/made", body, by=by)


def made(served: Served) -> bs.Table:
    return bs.open(f"{served.gateway.lake.url.partition('?')[0]}/made")


def is_made(served: Served) -> bool:
    return send(served, "HEAD", f"{TABLES}/made", by=MAKER).status_code == 204


def test_what_a_table_would_be_is_said_and_nothing_is_made(own: Served) -> None:
    maker = staged(own)
    assert maker.exported["location"].endswith("/lake/made")
    assert maker.exported["snapshots"] == []
    assert [one["id"] for one in maker.exported["schemas"][0]["fields"]] == [1, 2]
    assert not is_made(own)
    assert not list(Prefixed(own.gateway.lake, "made").list(""))


def test_a_table_comes_with_its_rows_and_as_it_was_asked_for(own: Served) -> None:
    maker = staged(own)
    found = commit(own, maker.making(maker.data(with_ids(ROWS))))
    assert found.status_code == 200, found.text
    document = found.json()["metadata"]
    assert document["table-uuid"] == maker.exported["table-uuid"]
    assert document["snapshots"][-1]["summary"]["total-records"] == "3"
    table = made(own)
    assert (table.definition.time_column, table.definition.sort_by) == ("at", ("n",))
    assert table.snapshot().scan(columns=["n"]).to_table()["n"].to_pylist() == [1, 2, 3]
    assert [entry.operation for entry in table.history()] == ["create", "append"]
    left = [info.key for info in maker.bucket.list("incoming/")]
    assert all(key.endswith(f"/{KEEP}") for key in left)


def test_identifier_fields_are_the_key(own: Served) -> None:
    asked = copy.deepcopy(PLAIN)
    asked["schema"]["identifier-field-ids"] = [9]
    asked["schema"]["fields"][1]["required"] = True
    maker = staged(own, asked)
    needed = pa.schema([ROWS.schema.field(0), pa.field("n", pa.int64(), nullable=False)])
    assert commit(own, maker.making(maker.data(with_ids(ROWS.cast(needed))))).status_code == 200
    assert made(own).definition.identity == Key(("n",))
    assert made(own).snapshot().count() == 3


def test_the_same_commit_counts_once(own: Served) -> None:
    maker = staged(own)
    body = maker.making(maker.data(with_ids(ROWS)))
    for _ in range(2):
        assert commit(own, body).status_code == 200
    assert made(own).snapshot().count() == 3
    assert len(list(made(own).history())) == 2


def test_a_gateway_that_ends_between_the_table_and_its_rows_is_followed_by_the_same_commit(
    own: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = staged(own)
    body = maker.making(maker.data(with_ids(ROWS)))

    def gone(*_: Any) -> Any:
        raise Unavailable("the gateway was killed")

    with monkeypatch.context() as patched:
        patched.setattr(own.gateway.catalog, "commit", gone)
        assert commit(own, body).status_code == 503
    assert made(own).snapshot().count() == 0
    assert commit(own, body).status_code == 200
    assert made(own).snapshot().count() == 3
    assert len(list(made(own).history())) == 2


def test_a_table_without_rows_is_made(own: Served) -> None:
    assert commit(own, staged(own).making()).status_code == 200
    assert made(own).snapshot().count() == 0


def test_a_table_whose_rows_are_refused_is_not_there(own: Served) -> None:
    maker = staged(own)
    wrong = pa.table({"at": ROWS["at"], "n": ["a", "b", "c"]})
    found = commit(own, maker.making(maker.data(with_ids(wrong))))
    assert found.status_code == 400, found.text
    assert not is_made(own)
    again = staged(own)
    assert again.exported["table-uuid"] != maker.exported["table-uuid"]
    again.base = 3
    ids = {one["name"]: one["id"] for one in again.exported["schemas"][0]["fields"]}
    assert commit(own, again.making(again.data(with_ids(ROWS, ids)))).status_code == 200
    assert made(own).snapshot().count() == 3


def test_a_table_that_is_there_is_left_alone(own: Served) -> None:
    maker = staged(own)
    body = maker.making(maker.data(with_ids(ROWS)))
    bs.create(f"{own.gateway.lake.url.partition('?')[0]}/made", schema=ROWS.schema)
    found = commit(own, body)
    assert found.status_code == 409, found.text
    assert "already a table made" in found.json()["error"]["message"]
    assert made(own).snapshot().count() == 0
    assert send(own, "POST", TABLES, {**PLAIN, "name": "flights"}, by=MAKER).status_code == 409


def test_a_table_of_somebody_else_is_not_dropped(own: Served) -> None:
    maker = staged(own)
    body = maker.making(maker.data(with_ids(ROWS)))
    assert commit(own, body).status_code == 200
    url = made(own).url
    bs.drop(url)
    bs.create(url, schema=ROWS.schema)
    found = commit(own, body)
    assert found.status_code == 409, found.text
    assert "came and went" in found.json()["error"]["message"]
    assert bs.open(url).snapshot().count() == 0


def test_it_needs_both_scopes(own: Served) -> None:
    maker = staged(own)
    body = maker.making(maker.data(with_ids(ROWS)))
    for token, scope in ((READ, "ddl"), (DEFINER, "write")):
        found = commit(own, body, by=token)
        assert found.status_code == 403
        assert f"lacks scope '{scope}'" in found.json()["error"]["message"]
    assert not is_made(own)


def _update(body: dict[str, Any], action: str) -> dict[str, Any]:
    (found,) = [one for one in body["updates"] if one["action"] == action]
    return found


def _without(action: str) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["updates"].remove(_update(body, action))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (_without("assign-uuid"), "one UUID"),
        (_without("add-schema"), "one schema"),
        (_without("set-snapshot-ref"), "does not set the branch 'main'"),
        (
            lambda body: _update(body, "add-snapshot")["snapshot"].update(
                {"parent-snapshot-id": 1}
            ),
            "based on the snapshot 1",
        ),
        (
            lambda body: _update(body, "upgrade-format-version").update({"format-version": 3}),
            "format version is 3",
        ),
        (lambda body: body["updates"].append({"action": "set-statistics"}), "no part of a new"),
        (
            lambda body: body["requirements"].append({"type": "assert-table-uuid", "uuid": "x"}),
            "no table, and something of it",
        ),
        (
            lambda body: _update(body, "add-schema")["schema"]["fields"].reverse(),
            "ids of the columns are not those",
        ),
        (
            lambda body: _update(body, "add-spec").update({"spec": {"fields": [{"name": "n"}]}}),
            "no partitions",
        ),
    ],
)
def test_an_odd_commit_makes_nothing(
    own: Served, damage: Callable[[dict[str, Any]], None], why: str
) -> None:
    maker = staged(own)
    body = maker.making(maker.data(with_ids(ROWS)))
    damage(body)
    found = commit(own, body)
    assert found.status_code in (400, 409), found.text
    assert why in found.json()["error"]["message"]
    assert not is_made(own)


def test_a_table_that_is_there_has_no_snapshot_before_its_first(own: Served) -> None:
    maker = staged(own)
    assert commit(own, maker.making(maker.data(with_ids(ROWS)))).status_code == 200
    engine = Engine(made(own))
    engine.base = NOTHING
    found = commit(own, engine.body(engine.list_of([])))
    assert found.status_code == 400
    assert "based on the snapshot 0" in found.json()["error"]["message"]
