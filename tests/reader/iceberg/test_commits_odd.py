"""Commits under odd circumstances: a version that was exported twice, a table that cannot be shown
afterwards, manifests that are made to harm."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import fastavro
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore import extras
from blockstore.export.iceberg.export import export_iceberg
from blockstore.export.iceberg.schema import label_ids
from blockstore.reader.iceberg.catalog import Catalog
from blockstore.reader.iceberg.commits.files import _Place
from blockstore.rows import exchange
from tests.reader.http.gateways import SCHEMA, Served, make_lake, rows_of, serving, settings
from tests.reader.iceberg.foreign import Engine, with_ids
from tests.reader.iceberg.test_commits import FLIGHTS, NEW, numbers, refused, send, table

EMPTY = {"type": "record", "name": "Nothing", "fields": []}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    with serving(settings(make_lake(tmp_path), tmp_path)) as one:
        one.gateway.tables.poll_now()
        yield one


def exported_elsewhere(engine: Engine) -> None:
    """Export the version again, as a machine does whose library compresses otherwise."""
    load = extras.load

    def other(module: str, name: str, why: str) -> Any:
        found = load(module, name, why)
        if name != "writer":
            return found
        return lambda *given, **more: found(*given, **{**more, "codec": "null"})

    with mock.patch("blockstore.export.iceberg.manifests.load", other):
        export_iceberg(engine.table)
    assert len(list(engine.bucket.list(f"metadata/snap-{engine.base}-"))) == 2


class TestAVersionThatWasExportedTwice:
    def test_an_append_takes_nothing_away(self, own: Served) -> None:
        engine = Engine(table(own))
        body = engine.append(engine.data(NEW))
        exported_elsewhere(engine)
        assert send(own, body).status_code == 200
        assert numbers(own) == [*range(1000), 5000, 5001, 5002]

    def test_a_file_that_the_snapshot_lacks_goes(self, own: Served) -> None:
        table(own).append(rows_of(range(2000, 2010)))
        engine = Engine(table(own))
        last = sorted(engine.files())[-1]
        body = engine.without(last, engine.data(NEW))
        exported_elsewhere(engine)
        assert send(own, body).status_code == 200
        assert numbers(own) == [*range(1000), 5000, 5001, 5002]


def test_a_commit_is_no_failure_where_the_table_cannot_be_shown_then(own: Served) -> None:
    engine = Engine(table(own))
    body = engine.append(engine.data(NEW))
    with mock.patch.object(Catalog, "load", side_effect=bs.Invalid("a type that Iceberg lacks")):
        assert "a type that Iceberg lacks" in refused(send(own, body), 504)
    assert numbers(own)[1000:] == [5000, 5001, 5002]
    assert send(own, body).status_code == 200
    assert numbers(own)[1000:] == [5000, 5001, 5002]


class TestAManifestThatIsMadeToHarm:
    """Its schema is the client's, and decoding follows it."""

    @pytest.mark.parametrize(
        "kind",
        [["null", "Row"], {"type": "array", "items": "null"}, {"type": "array", "items": EMPTY}],
        ids=["a type within itself", "items of no bytes", "records of no bytes"],
    )
    def test_a_schema_that_a_few_bytes_blow_up(self, own: Served, kind: Any) -> None:
        engine = Engine(table(own))
        path = {"name": "manifest_path", "type": "string"}
        schema = {"type": "record", "name": "Row", "fields": [path, {"name": "more", "type": kind}]}
        rows: list[Any] = [
            {"manifest_path": engine.before()[0], "more": None if "Row" in kind else []}
        ]
        body = engine.body(written(engine, schema, rows))
        assert "its schema has" in refused(send(own, body), 400)

    def test_rows_of_no_bytes(self, own: Served) -> None:
        engine = Engine(table(own))
        body = engine.body(written(engine, {**EMPTY, "name": "Row"}, [{}]))
        assert "rows of no bytes" in refused(send(own, body), 400)

    def test_fields_that_nothing_looks_at_are_not_decoded(self, own: Served) -> None:
        engine = Engine(table(own))
        more = {"type": "array", "items": {"type": "array", "items": "int"}}
        fields = [{"name": "manifest_path", "type": "string"}, {"name": "more", "type": more}]
        schema = {"type": "record", "name": "Row", "fields": fields}
        rows = [{"manifest_path": path, "more": [[1]]} for path in engine.before()]
        key = written(engine, schema, rows).removeprefix(f"{engine.location}/")
        found = [row for _, row in _Place(engine.bucket, engine.location)._rows(key)]
        assert found == [{"manifest_path": path} for path in engine.before()]

    @pytest.mark.parametrize("spoilt", ["record_count", "file_path", "data_file", "status"])
    def test_a_field_that_is_missing(self, own: Served, spoilt: str) -> None:
        engine = Engine(table(own))
        path = engine.manifest([engine.data(NEW)])
        found = fastavro.reader(
            io.BytesIO(engine.bucket.get(path.removeprefix(f"{engine.location}/")).data)
        )
        schema: Any = json.loads(json.dumps(found.writer_schema).replace(f'"{spoilt}"', '"other"'))
        rows = json.loads(json.dumps(list(found)).replace(f'"{spoilt}"', '"other"'))
        listed = engine.list_of([*engine.before(), written(engine, schema, rows)])
        why = refused(send(own, engine.body(listed)), 400)
        assert "cannot be read as a manifest" in why

    def test_a_partition_that_its_spec_does_not_have(self, own: Served) -> None:
        engine = Engine(table(own))
        path = engine.manifest([engine.data(NEW)], labels=["site"])
        key = path.removeprefix(f"{engine.location}/")
        found = fastavro.reader(io.BytesIO(engine.bucket.get(key).data))
        schema: Any = found.writer_schema
        listed = engine.list_of([*engine.before(), written(engine, schema, list(found))])
        assert "cannot be read as a manifest" in refused(send(own, engine.body(listed)), 400)


def written(engine: Engine, schema: Any, rows: list[Any]) -> str:
    """Write an Avro file of a client; returns its path."""
    out = io.BytesIO()
    fastavro.writer(out, schema, rows)
    key = "incoming/metadata/odd.avro"
    engine.bucket.put(key, out.getvalue())
    return engine.path(key)


@pytest.mark.parametrize("key", [(), "n"], ids=["without a key", "with a key"])
def test_rows_that_lack_a_label_may_have_its_column(own: Served, key: str) -> None:
    url = str(own.gateway.tables.bucket_of("flights").url).replace("flights", "sites")
    made = bs.create(url, schema=SCHEMA, key=key)
    add = made.insert if key else made.append
    add(rows_of(range(2)), labels={"site": "x"})
    own.gateway.tables.appeared()
    engine = Engine(made)
    site = label_ids(["site"])["site"]
    rows = NEW.append_column("site", pa.nulls(3, pa.string()))
    file = engine.data(with_ids(rows, {"time": 1, "n": 2, "s": 3, "site": site}))
    body = engine.append(file, labels=["site"])
    found = send(own, body, path=FLIGHTS.replace("flights", "sites"))
    assert found.status_code == 200, found.text
    made.poll()
    shown = made.snapshot().scan(columns=["n", "site"]).to_table().to_pylist()
    assert {row["n"]: row["site"] for row in shown} == {
        **dict.fromkeys([0, 1], "x"),
        **dict.fromkeys([5000, 5001, 5002]),
    }


def test_a_commit_that_changes_nothing_can_be_sent_again(own: Served) -> None:
    url = str(own.gateway.tables.bucket_of("flights").url).replace("flights", "keyed")
    made = bs.create(url, schema=SCHEMA, key="n")
    made.insert(NEW)
    own.gateway.tables.appeared()
    engine = Engine(made)
    body = engine.instead(engine.data(NEW))
    path = FLIGHTS.replace("flights", "keyed")
    assert [send(own, body, path=path).status_code for _ in range(2)] == [200, 200]
    assert made.poll() == engine.base + 1, "one entry takes the batch of both"
    assert made.snapshot().scan().to_table().num_rows == NEW.num_rows


def test_nested_fields_without_ids_are_refused(own: Served) -> None:
    engine = Engine(table(own))
    rows = with_ids(pa.table({"n": pa.array([[1]], pa.list_(pa.int32()))}), {"n": 2})
    body = engine.append(engine.data(rows))
    assert "without a field id within the column 'n'" in refused(send(own, body), 400)


@pytest.mark.parametrize("key", [(), "n"], ids=["without a key", "with a key"])
def test_a_label_that_is_named_as_a_column_is_refused(own: Served, key: str) -> None:
    url = str(own.gateway.tables.bucket_of("flights").url).replace("flights", "sites")
    made = bs.create(url, schema=SCHEMA, key=key)
    (made.insert if key else made.append)(rows_of(range(2)))
    own.gateway.tables.appeared()
    engine = Engine(made)
    files = [
        replace(engine.data(NEW.slice(place, 1)), labels={"N": value})
        for place, value in enumerate("xy")
    ]
    body = engine.body(engine.list_of([engine.manifest(files, labels=["N"])]))
    why = refused(send(own, body, path=FLIGHTS.replace("flights", "sites")), 400)
    assert "same name as column 'n'" in why


def test_more_rows_than_are_compared_at_once_are_refused(
    own: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(own.gateway.tables.bucket_of("flights").url).replace("flights", "keyed")
    made = bs.create(url, schema=SCHEMA, key="n")
    made.insert(rows_of(range(2)))
    own.gateway.tables.appeared()
    monkeypatch.setattr(exchange, "_MOST", 2)
    engine = Engine(made)
    path = FLIGHTS.replace("flights", "keyed")
    body = engine.instead(engine.data(NEW))
    assert "more than 2 rows at once" in refused(send(own, body, path=path), 400)
    body = engine.instead(engine.data(NEW[:2]))
    assert send(own, body, path=path).status_code == 200
