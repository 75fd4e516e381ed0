"""Commits of other engines: once each, whole or not at all, and what is refused."""

from __future__ import annotations

import copy
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.export.iceberg.export import export_iceberg
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.reader.iceberg.commits import expanded
from blockstore.reader.iceberg.commits.commit import KEEP, Commits
from blockstore.table import Table
from blockstore.world import World
from tests.reader.http.gateways import (
    FEW,
    READ,
    SCHEMA,
    WRITE,
    Served,
    make_lake,
    rows_of,
    serving,
    settings,
)
from tests.reader.iceberg.foreign import Engine, counted, with_ids
from tests.support.damaged import parquet_with_a_wrong_page
from tests.support.faulty import FaultyBucket, Killed
from tests.support.tally import tally

FLIGHTS = "/iceberg/v1/namespaces/lake/tables/flights"
NEW = rows_of(range(5000, 5003))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("commits")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    with serving(settings(make_lake(tmp_path), tmp_path)) as one:
        one.gateway.tables.poll_now()
        yield one


def table(served: Served, name: str = "flights") -> Table:
    return bs.open(served.gateway.tables.bucket_of(name).url)


def numbers(served: Served, name: str = "flights") -> list[int]:
    return sorted(table(served, name).snapshot().scan().to_table()["n"].to_pylist())


def send(served: Served, body: Any, token: str = WRITE, path: str = FLIGHTS) -> httpx.Response:
    with served.as_(token) as http:
        return http.post(path, json=body)


def refused(found: httpx.Response, status: int) -> str:
    assert found.status_code == status, found.text
    error = found.json()["error"]
    assert error["code"] == status
    assert error["type"].endswith("Exception")
    return str(error["message"])


def _as_epoch(body: Any, query: Any, number: Any) -> None:
    body["updates"][0]["snapshot"]["summary"] = {
        "operation": "append",
        "spark.sql.streaming.queryId": query,
        "spark.sql.streaming.epochId": number,
    }


def test_the_metrics_say_how_commits_ended(own: Served) -> None:
    engine = Engine(table(own))
    append = engine.append(engine.data(with_ids(NEW)))
    assert send(own, append).status_code == 200
    assert send(own, append).status_code == 200, "the same commit, which counts once as rows"
    refused(send(own, {"requirements": [], "updates": []}), 400)
    refused(send(own, append, path=FLIGHTS.replace("flights", "missing")), 404)
    refused(send(own, append, READ), 403)
    another = copy.deepcopy(append)
    _uuid(another)
    refused(send(own, another), 409)
    assert counted(own) == Counter(done=2, refused=3, conflict=1)


class TestRows:
    def test_are_appended_and_the_response_has_them(self, own: Served) -> None:
        engine = Engine(table(own))
        found = send(own, engine.append(engine.data(NEW)))
        assert found.status_code == 200, found.text
        assert found.json()["metadata"]["current-snapshot-id"] == engine.base + 1
        assert numbers(own) == [*range(1000), 5000, 5001, 5002]
        left = {info.key.rpartition("/")[2] for info in engine.bucket.list("incoming/")}
        assert left == {KEEP}, "folders stay, for other engines"

    def test_replace_those_of_all_files_that_the_snapshot_lacks(self, own: Served) -> None:
        engine = Engine(table(own))
        assert send(own, engine.instead(engine.data(NEW))).status_code == 200
        assert numbers(own) == [5000, 5001, 5002]

    def test_go_where_nothing_replaces_them(self, own: Served) -> None:
        engine = Engine(table(own))
        assert send(own, engine.instead()).status_code == 200
        assert numbers(own) == []

    def test_follow_what_others_appended_since_the_table_was_loaded(self, own: Served) -> None:
        engine = Engine(table(own))
        table(own).append(rows_of(range(2000, 2010)))
        assert send(own, engine.append(engine.data(NEW))).status_code == 200
        assert send(own, engine.instead()).status_code == 200
        assert numbers(own) == [*range(2000, 2010), 5000, 5001, 5002]

    def test_that_were_appended_since_the_new_ones_were_computed_never_go(
        self, own: Served
    ) -> None:
        engine = Engine(table(own))
        file = engine.data(NEW)
        table(own).append(rows_of(range(2000, 2010)))
        engine.loaded_again()
        assert "newer than version" in refused(send(own, engine.instead(file)), 409)
        assert numbers(own) == [*range(1000), *range(2000, 2010)]

    def test_columns_are_found_by_their_ids_and_missing_ones_are_null(self, own: Served) -> None:
        engine = Engine(table(own))
        given = pa.table({"whatever": pa.array([7], pa.int32()), "when": NEW["time"][:1]})
        body = engine.append(engine.data(with_ids(given, {"whatever": 2, "when": 1})))
        assert send(own, body).status_code == 200
        (row,) = table(own).snapshot().scan(where="n = 7 AND s IS NULL").to_table().to_pylist()
        assert row == {"time": NEW["time"][0].as_py(), "n": 7, "s": None}

    def test_a_commit_that_changes_nothing_is_no_version(self, own: Served) -> None:
        engine = Engine(table(own))
        assert send(own, engine.append()).status_code == 200
        assert table(own).poll() == engine.base


class TestAKey:
    """A commit that replaces files says which rows there are now; the keys say what changed."""

    @pytest.fixture
    def keyed(self, tmp_path: Path) -> Iterator[tuple[Served, Table]]:
        url = f"{tmp_path}/lake"
        made = bs.create(f"{url}/keyed?durable=false", schema=SCHEMA, key="n")
        made.insert(rows_of(range(100)))
        with serving(settings(f"{url}?durable=false", tmp_path)) as served:
            yield served, made

    def send(self, keyed: tuple[Served, Table], body: Any) -> httpx.Response:
        return send(keyed[0], body, path=FLIGHTS.replace("flights", "keyed"))

    def test_only_rows_that_changed_have_a_new_version(self, keyed: tuple[Served, Table]) -> None:
        made = keyed[1]
        engine = Engine(made)
        words = [f"row {n}" for n in range(1, 100)] + ["came"]
        words[40] = "changed"
        rows = pa.concat_tables([rows_of(range(1, 100)), rows_of(range(500, 501))])
        rows = rows.set_column(2, "s", pa.array(words))
        assert self.send(keyed, engine.instead(engine.data(rows))).status_code == 200
        made.poll()
        found = made.snapshot().scan(columns=["n", "s", "_version"]).to_table().to_pylist()
        fresh = {row["n"]: row["s"] for row in found if row["_version"] > engine.base}
        assert fresh == {41: "changed", 500: "came"}
        assert sorted(row["n"] for row in found) == [*range(1, 100), 500]

    def test_rows_that_others_changed_since_are_a_conflict_and_others_are_not(
        self, keyed: tuple[Served, Table]
    ) -> None:
        made = keyed[1]
        engine = Engine(made)
        made.upsert(rows_of(range(200, 203)))
        body = engine.instead(engine.data(rows_of(range(1, 100))))
        assert self.send(keyed, body).status_code == 200
        engine = Engine(made)
        made.update({"s": "by another"}, where="n = 5")
        body = engine.instead(engine.data(rows_of(range(10, 100))))
        assert "5" in refused(self.send(keyed, body), 409)
        made.poll()
        assert made.snapshot().scan(where="s = 'by another'").to_table().num_rows == 1

    def test_what_others_deleted_since_the_rows_were_read_stays_deleted(
        self, keyed: tuple[Served, Table]
    ) -> None:
        """An engine loads the table again before it commits; its files say what it had read."""
        made = keyed[1]
        engine = Engine(made)
        as_it_was = engine.data(rows_of(range(1, 100)))
        words = pa.array(["changed"] * 99)
        changed = engine.data(rows_of(range(1, 100)).set_column(2, "s", words))
        made.delete("n = 50")
        engine.loaded_again()
        assert "changed" in refused(self.send(keyed, engine.instead(changed)), 409)
        assert self.send(keyed, engine.instead(as_it_was)).status_code == 200
        assert numbers(keyed[0], "keyed") == [*range(1, 50), *range(51, 100)]

    def test_a_key_that_occurs_twice_or_exists_elsewhere_is_refused(
        self, keyed: tuple[Served, Table]
    ) -> None:
        made = keyed[1]
        engine = Engine(made)
        double = pa.concat_tables([rows_of(range(10)), rows_of(range(1))])
        why = refused(self.send(keyed, engine.instead(engine.data(double))), 400)
        assert "a key occurs twice" in why
        made.insert(rows_of(range(100, 110)))
        engine = Engine(made)
        last = sorted(engine.files())[-1]
        body = engine.without(last, engine.data(rows_of(range(1))))
        assert "exist already" in refused(self.send(keyed, body), 400)

    def test_an_epoch_of_a_stream_whose_keys_exist_since_its_first_commit_is_done(
        self, keyed: tuple[Served, Table]
    ) -> None:
        for _ in range(2):
            engine = Engine(bs.open(keyed[1].url))
            body = engine.append(engine.data(rows_of(range(5000, 5001))))
            _as_epoch(body, "q", "0")
            assert self.send(keyed, body).status_code == 200
        assert numbers(keyed[0], "keyed") == [*range(100), 5000]


class TestOnce:
    def test_a_commit_that_is_sent_again_counts_once(self, own: Served) -> None:
        engine = Engine(table(own))
        body = engine.append(engine.data(NEW))
        first, second = send(own, body), send(own, body)
        assert first.status_code == second.status_code == 200, second.text
        assert numbers(own) == [*range(1000), 5000, 5001, 5002]

    def test_a_commit_that_is_tried_again_at_another_time_counts_once(self, own: Served) -> None:
        engine = Engine(table(own))
        body = engine.append(engine.data(NEW))
        assert send(own, body).status_code == 200
        body["updates"][0]["snapshot"]["timestamp-ms"] += 1_000
        assert send(own, body).status_code == 200
        assert numbers(own) == [*range(1000), 5000, 5001, 5002]

    def test_an_epoch_of_a_stream_that_is_written_again_counts_once(self, own: Served) -> None:
        """With other files, another snapshot and at another time. A lower one is another epoch, of
        a checkpoint that was set back: its rows are not there, and it is not reported as done."""
        for query, number, codes in (("q", 7, [200, 200]), ("q", 8, [200]), ("q", 6, [409])):
            for code in codes:
                engine = Engine(table(own))
                body = engine.append(engine.data(rows_of(range(5000 + number, 5001 + number))))
                _as_epoch(body, query, str(number))
                body["updates"][0]["snapshot"]["timestamp-ms"] += number
                assert send(own, body).status_code == code
        assert numbers(own) == [*range(1000), 5007, 5008]

    def test_epochs_of_other_queries_and_what_names_no_epoch_are_commits_of_their_own(
        self, own: Served
    ) -> None:
        for query, number in (("a", "0"), ("b", "0"), ("a", "x"), ("a", "x"), (1, "0"), ("a", 0)):
            engine = Engine(table(own))
            body = engine.append(engine.data(rows_of(range(5000, 5001))))
            _as_epoch(body, query, number)
            assert send(own, body).status_code == 200
        for summary in (None, [], "q"):
            engine = Engine(table(own))
            body = engine.append(engine.data(rows_of(range(5000, 5001))))
            body["updates"][0]["snapshot"]["summary"] = summary
            assert send(own, body).status_code == 200
        assert numbers(own) == [*range(1000), *[5000] * 9]

    def test_an_epoch_that_two_drivers_commit_at_once_counts_once(self, own: Served) -> None:
        bodies = []
        for place in range(4):
            engine = Engine(table(own))
            body = engine.append(engine.data(rows_of(range(5000, 5001))))
            _as_epoch(body, "q", "3")
            body["updates"][0]["snapshot"]["timestamp-ms"] += place
            bodies.append(body)
        with ThreadPoolExecutor(4) as pool:
            codes = [one.status_code for one in pool.map(lambda body: send(own, body), bodies)]
        assert 200 in codes
        assert numbers(own) == [*range(1000), 5000]

    def test_a_replacement_that_is_sent_again_counts_once(self, own: Served) -> None:
        engine = Engine(table(own))
        body = engine.instead(engine.data(NEW))
        assert [send(own, body).status_code for _ in range(2)] == [200, 200]
        assert numbers(own) == [5000, 5001, 5002]

    def test_a_commit_whose_table_cannot_be_shown_afterwards_is_no_failure(
        self, own: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Engine(table(own))
        body = engine.append(engine.data(NEW))
        catalog = own.gateway.catalog
        monkeypatch.setattr(catalog, "load", _refuse)
        found = send(own, body)
        assert found.status_code == 504
        assert found.json()["error"]["type"] == "CommitStateUnknownException"
        monkeypatch.undo()
        assert send(own, body).status_code == 200
        assert numbers(own) == [*range(1000), 5000, 5001, 5002]

    def test_a_commit_that_two_gateways_receive_at_once_counts_once(
        self, own: Served, tmp_path: Path
    ) -> None:
        url = f"{tmp_path}/lake?durable=false"
        with serving(settings(url, tmp_path / "other")) as other:
            for one in (own, other):  # FastAPI builds a route at its first request
                send(one, {})
            for many in range(1, 4):
                engine = Engine(table(own))
                body = engine.append(engine.data(rows_of(range(5000, 5001))))
                with ThreadPoolExecutor(4) as pool:
                    sent = [pool.submit(send, to, body) for to in (own, other) * 2]
                    codes = [one.result().status_code for one in sent]
                assert codes == [200] * 4
                assert numbers(own)[1000:] == [5000] * many


def _refuse(*_: object) -> None:
    raise bs.Invalid("column 'x' has a type that Iceberg does not have")


def _uuid(body: dict[str, Any]) -> None:
    body["requirements"][1]["uuid"] = "00000000-0000-0000-0000-000000000000"


def _no_uuid(body: dict[str, Any]) -> None:
    del body["requirements"][1]


def _create(body: dict[str, Any]) -> None:
    body["requirements"].append({"type": "assert-create"})


def _unknown_requirement(body: dict[str, Any]) -> None:
    body["requirements"].append({"type": "assert-weather"})


def _schema(body: dict[str, Any]) -> None:
    body["requirements"].append({"type": "assert-current-schema-id", "current-schema-id": 77})


def _properties(body: dict[str, Any]) -> None:
    body["updates"].append({"action": "set-properties", "updates": {"gc.enabled": "true"}})


def _expiry(body: dict[str, Any]) -> None:
    body["updates"].append({"action": "remove-snapshots", "snapshot-ids": [1]})


def _tag(body: dict[str, Any]) -> None:
    body["updates"][1]["ref-name"] = "release"


def _never(body: dict[str, Any]) -> None:
    body["updates"][0]["snapshot"]["parent-snapshot-id"] = 4000


def _no_parent(body: dict[str, Any]) -> None:
    del body["updates"][0]["snapshot"]["parent-snapshot-id"]


def _future(body: dict[str, Any]) -> None:
    body["updates"][0]["snapshot"]["timestamp-ms"] *= 2


def _past(body: dict[str, Any]) -> None:
    body["updates"][0]["snapshot"]["timestamp-ms"] = -1


def _list_elsewhere(body: dict[str, Any]) -> None:
    snapshot = body["updates"][0]["snapshot"]
    snapshot["manifest-list"] = snapshot["manifest-list"].replace("incoming", "metadata")


def _list_outside(body: dict[str, Any]) -> None:
    snapshot = body["updates"][0]["snapshot"]
    snapshot["manifest-list"] = snapshot["manifest-list"].replace(
        "/incoming/", "/incoming/../../salaries/incoming/"
    )


def _list_gone(body: dict[str, Any]) -> None:
    body["updates"][0]["snapshot"]["manifest-list"] += "x"


BODIES: list[tuple[Callable[[dict[str, Any]], None], int, str]] = [
    (_uuid, 409, "dropped and created again"),
    (_no_uuid, 400, "lacks the requirement 'assert-table-uuid'"),
    (_create, 400, "requires that there is no table"),
    (_unknown_requirement, 400, "'assert-weather' is not known here"),
    (_schema, 409, "the client requires current-schema-id 77"),
    (_properties, 400, "the update 'set-properties' is not possible here"),
    (_expiry, 400, "the update 'remove-snapshots' is not possible here"),
    (_tag, 400, "is not possible here"),
    (_never, 400, "the table has no snapshot 4000"),
    (_no_parent, 400, "parent-snapshot-id is 'None', expected a number"),
    (_future, 400, "more than a day in the future"),
    (_past, 400, "timestamp-ms is '-1'"),
    (_list_elsewhere, 400, "is not below"),
    (_list_outside, 400, "is not below"),
    (_list_gone, 400, "which is not there"),
]


class TestWhatIsRefused:
    @pytest.fixture(autouse=True)
    def unchanged(self, served: Served) -> Iterator[None]:
        before = table(served).poll(), numbers(served)
        yield
        assert (table(served).poll(), numbers(served)) == before

    @pytest.mark.parametrize(
        ("spoil", "status", "why"), BODIES, ids=[one.__name__ for one, _, _ in BODIES]
    )
    def test_a_request(
        self, served: Served, spoil: Callable[[dict[str, Any]], None], status: int, why: str
    ) -> None:
        engine = Engine(table(served))
        body = engine.append(engine.data(NEW))
        spoil(body)
        assert why in refused(send(served, body), status)

    @pytest.mark.parametrize(
        "body",
        [None, [], {}, {"updates": 7, "requirements": []}, {"updates": [7], "requirements": []}],
    )
    def test_a_body_that_is_no_commit(self, served: Served, body: Any) -> None:
        refused(send(served, body), 400)

    def test_a_body_that_is_no_json(self, served: Served) -> None:
        with served.as_(WRITE) as http:
            assert "not valid JSON" in refused(http.post(FLIGHTS, content=b"{"), 400)

    def test_a_token_that_may_not_write_or_does_not_know_the_table(self, served: Served) -> None:
        engine = Engine(table(served))
        body = engine.append(engine.data(NEW))
        assert "lacks scope 'write'" in refused(send(served, body, READ), 403)
        path = FLIGHTS.replace("flights", "salaries")
        assert "there is no table salaries" in refused(send(served, body, FEW, path), 404)
        assert "dropped and created again" in refused(send(served, body, path=path), 409)

    def test_a_file_outside_of_the_table(self, served: Served) -> None:
        engine = Engine(table(served))
        good = engine.data(NEW)
        for path in (
            good.path.replace("/flights/", "/salaries/"),
            good.path.replace("/incoming/", "/incoming/../"),
            "/etc/passwd",
            "s3://elsewhere/data.parquet",
        ):
            why = refused(send(served, engine.append(replace(good, path=path))), 400)
            assert "is not below" in why or "does not have" in why, path

    def test_a_file_that_is_not_there_any_more(self, served: Served) -> None:
        engine = Engine(table(served))
        good = engine.data(NEW)
        body = engine.append(good)
        engine.bucket.delete([good.path.removeprefix(f"{engine.location}/")])
        assert "which is not there" in refused(send(served, body), 400)

    def test_a_file_of_the_table_that_the_version_does_not_have(self, served: Served) -> None:
        engine = Engine(table(served))
        live = next(
            info.key for info in engine.bucket.list() if info.key.endswith(".parquet")
            and "chunks/" in info.key
        )  # fmt: skip
        again = replace(engine.data(NEW), path=engine.path(live))
        assert "does not have" in refused(send(served, engine.append(again)), 400)

    def test_a_file_that_is_listed_twice(self, served: Served) -> None:
        engine = Engine(table(served))
        good = engine.data(NEW)
        assert "twice" in refused(send(served, engine.append(good, good)), 400)

    def test_delete_files(self, served: Served) -> None:
        engine = Engine(table(served))
        own = engine.manifest([engine.data(NEW)], content=1)
        listed = engine.list_of([*engine.before(), own], contents={own: 1})
        assert "copy-on-write" in refused(send(served, engine.body(listed)), 400)

    def test_a_manifest_that_is_none(self, served: Served) -> None:
        engine = Engine(table(served))
        for data in (b"", b"not Avro", b"Obj\x01" + b"\xff" * 100):
            key = "incoming/metadata/none.avro"
            engine.bucket.put(key, data)
            body = engine.body(engine.path(key))
            assert "cannot be read as a manifest" in refused(send(served, body), 400)
            body = engine.body(engine.list_of([*engine.before(), engine.path(key)]))
            assert "cannot be read as a manifest" in refused(send(served, body), 400)

    def test_a_manifest_that_is_small_only_while_it_is_compressed(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(expanded, "_MOST", 1 << 20)
        engine = Engine(table(served))
        file = replace(engine.data(NEW), lower={2: bytes(2 << 20)})
        body = engine.append(file)
        assert "larger than 1,048,576 bytes" in refused(send(served, body), 400)

    def test_a_manifest_that_is_cut_off_anywhere(self, served: Served) -> None:
        engine = Engine(table(served))
        whole = engine.manifest([engine.data(NEW)]).removeprefix(f"{engine.location}/")
        data = engine.bucket.get(whole).data
        for end in range(1, len(data), max(1, len(data) // 12)):
            engine.bucket.put(whole, data[:end])
            listed = engine.list_of([*engine.before(), engine.path(whole)])
            refused(send(served, engine.body(listed)), 400)

    def test_rows_that_do_not_fit(self, served: Served) -> None:
        engine = Engine(table(served))
        text = pa.table({"n": pa.array(["x"])})
        other = pa.table({"n": pa.array([1]), "more": pa.array([1])})
        cases = [
            (engine.data(with_ids(text, {"n": 2})), "has string in column 'n'"),
            (engine.data(with_ids(other, {"n": 2, "more": 99})), "whose field id the table does"),
            (engine.data(NEW, said=7), "has 3 rows, and its manifest says 7"),
            (engine.file(b"PAR1 and then nothing", 1), "cannot be read as Parquet"),
            (
                engine.file(parquet_with_a_wrong_page(with_ids(NEW)), NEW.num_rows),
                "CRC checksum",
            ),
            (engine.file(_without_ids(), 1), "without a field id"),
        ]
        for file, why in cases:
            assert why in refused(send(served, engine.append(file)), 400)

    def test_rows_that_replace_others_where_rows_have_an_identity(self, own: Served) -> None:
        url = str(own.gateway.tables.bucket_of("flights").url).replace("flights", "ids")
        made = bs.create(url, schema=SCHEMA, row_ids=True)
        made.append(NEW)
        own.gateway.tables.appeared()
        engine = Engine(made)
        path = FLIGHTS.replace("flights", "ids")
        assert "the rows of this table have ids" in refused(
            send(own, engine.instead(), path=path), 400
        )
        assert send(own, engine.append(engine.data(NEW)), path=path).status_code == 200
        assert numbers(own, "ids") == [5000, 5000, 5001, 5001, 5002, 5002]
        two = [engine.data(NEW, site=site) for site in "xy"]
        body = engine.append(*two, labels=["site"])
        assert "2 sets of labels" in refused(send(own, body, path=path), 400)


def _without_ids() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), out)
    return out.getvalue()


class TestCrashes:
    """A gateway dies at any of its writes, or does not hear the result of one; then another
    gateway is sent the same commit."""

    @pytest.mark.parametrize("kind", ["append", "labels", "replace", "key", "replace keys"])
    def test_the_commit_counts_once(self, kind: str, tmp_path: Path) -> None:
        scene = self._scene(kind)
        whole = _Copy(scene, 1)
        counting = FaultyBucket(whole.bucket)
        whole.commit(counting, tmp_path)
        before, after = scene.rows(), whole.rows()
        assert before != after
        for call in counting.calls:
            if not call.writes:
                continue
            for fault in ("kill_before", "kill_after", "lose_answer"):
                at = _Copy(scene, 1)
                number = {call.number} if fault == "lose_answer" else call.number
                try:
                    at.commit(FaultyBucket(at.bucket, **{fault: number}), tmp_path)  # type: ignore[arg-type]
                except (Killed, bs.BlockstoreError):
                    pass
                assert at.rows() in (before, after), (fault, call)
                at.commit(at.bucket, tmp_path)
                assert at.rows() == after, (fault, call)
                tally("crash points")

    def _scene(self, kind: str) -> _Copy:
        world = World.manual(seed=3)
        bucket = MemoryBucket(world.clock)
        definition = Definition.create(SCHEMA, key="n" if "key" in kind else ())
        made = Table(bucket, world, index_log.create(bucket, world, definition))
        rows = rows_of(range(4))
        if "key" in kind:
            made.insert(rows)
        else:
            made.append(rows, labels={"site": "x"} if kind == "labels" else None)
        world.clock.sleep(1)
        engine = Engine(made)
        match kind:
            case "replace":
                body = engine.instead(engine.data(NEW))
            case "replace keys":
                kept = pa.concat_tables([rows.slice(1, 2), NEW])
                body = engine.instead(engine.data(kept))
            case "labels":
                files = [engine.data(NEW, site="x"), engine.data(NEW, site="y")]
                body = engine.append(*files, labels=["site"])
            case _:
                body = engine.append(engine.data(NEW))
        return _Copy.of(bucket, body, world.clock.now_ms())


class _Copy:
    """The scene in a bucket and a world of its own."""

    def __init__(self, scene: _Copy, seed: int) -> None:
        self.now_ms, self.body = scene.now_ms, scene.body
        self.world = World.manual(seed=seed, now_ms=scene.now_ms)
        self.bucket = MemoryBucket(self.world.clock)
        for found in scene.bucket.list():
            self.bucket.put(found.key, scene.bucket.get(found.key).data)

    @classmethod
    def of(cls, bucket: MemoryBucket, body: Any, now_ms: int) -> _Copy:
        made = cls.__new__(cls)
        made.bucket, made.body, made.now_ms = bucket, body, now_ms
        made.world = World.manual(seed=9, now_ms=now_ms)
        return made

    def commit(self, bucket: Any, folder: Path) -> None:
        self.world.clock.sleep(1)
        opened = Table.open_bucket(bucket, self.world)
        engine = Engine.__new__(Engine)
        wanted = engine.wanted(copy.deepcopy(self.body))
        commits = Commits(scratch=lambda: folder / "not there yet" / self.world.ids.token())
        commits.commit(opened, wanted, lambda: _document(opened))

    def rows(self) -> Counter[int]:
        found = Table.open_bucket(self.bucket, self.world).snapshot().scan().to_table()
        return Counter(found["n"].to_pylist())


def _document(opened: Table) -> dict[str, Any]:
    return dict(json.loads(export_iceberg(opened).document))
