"""People of an OpenID provider at every door, with the rights of their groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.reader.http.people import Group, Issuer
from blockstore.reader.http.tokens import Scope
from blockstore.world import World
from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import WRITE, make_lake, settings
from tests.reader.http.issuer import AUDIENCE, URL, Signer, claims, published

SIGNER = Signer("ES256")
GROUPS = (
    Group(name="engineers", scopes=frozenset({Scope.READ, Scope.WRITE, Scope.DDL})),
    Group(name="analysts", scopes=frozenset({Scope.READ}), tables=frozenset({"flights"})),
)
COUNT = "SELECT count(*) AS c FROM flights"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "keys.json").write_bytes(published(SIGNER))
    issuer = Issuer(name="company", url=URL, audience=AUDIENCE, keys=str(folder / "keys.json"))
    asked = settings(make_lake(folder), folder, issuers=(issuer,), groups=GROUPS)
    with three(asked, folder / "audit.jsonl") as made:
        made.gateway.gate.people.look()
        yield made


def token(*groups: str, after_s: float = 600, **more: object) -> str:
    exp = World.real().clock.now_ms() / 1000 + after_s
    return SIGNER.token(claims(groups=list(groups), exp=exp, **more))


def test_they_read_what_their_group_may_at_every_door(doors: Three) -> None:
    ann = token("analysts")
    with doors.served.as_(ann) as client:
        who = client.get("/v1/whoami").json()
        assert who["name"] == "ann@example.com"
        asked = client.post("/v1/query", json={"sql": COUNT}, headers={"accept": "text/csv"})
        assert asked.status_code == 200
        assert client.post("/v1/query", json={"sql": "FROM salaries"}).status_code == 404
        assert client.post("/v1/statements", json={"sql": "DELETE FROM flights"}).status_code == 403
    with doors.client(ann) as flights:
        assert flights.query(COUNT).column_names == ["c"]
        with pytest.raises((pa.ArrowException, KeyError), match="no table salaries"):
            flights.query("FROM salaries")
    raw = doors.raw(ann)
    assert len(raw.rows(COUNT)) == 1
    assert "no table salaries" in raw.fails("SELECT * FROM salaries")["M"]
    raw.close()


def test_what_they_do_is_audited_by_their_name_and_theirs(doors: Three) -> None:
    bob = token("engineers", sub="0007", email="bob@example.com")
    eve = token("engineers", sub="0008", email="bob@example.com")
    with doors.served.as_(bob) as client:
        made = client.post("/v1/statements", json={"sql": "CREATE TABLE bobs (a INT)"})
        assert made.status_code == 200, made.text
        job = made.json()["id"]
        assert client.get(f"/v1/jobs/{job}").status_code == 200
    with doors.served.as_(eve) as client:
        assert client.get(f"/v1/jobs/{job}").status_code == 404, "another subject of one name"
    lines = doors.about("bobs")
    assert {one["token"] for one in lines} == {"bob@example.com"}
    assert {(one["issuer"], one["subject"]) for one in lines} == {(URL, "0007")}
    with doors.raw(eve) as raw:
        raw.rows("SELECT 'by postgres' AS a")
    with doors.client(eve) as flights:
        flights.query("SELECT 'by flight' AS a")
    for mark in ("by postgres", "by flight"):
        assert {(one["issuer"], one["subject"]) for one in doors.about(mark)} == {(URL, "0008")}
    with doors.served.as_(WRITE) as client:
        client.post("/v1/query", json={"sql": "SELECT 'by a program' AS a"})
    (line,) = doors.about("by a program")
    assert (line["issuer"], line["subject"]) == (None, None)


def test_a_token_in_a_statement_is_not_in_the_audit_log(doors: Three) -> None:
    ann = token("analysts")
    with doors.served.as_(ann) as client:
        client.post("/v1/query", json={"sql": f"SELECT '{ann}' AS t, 'in a text' AS mark"})
    (line,) = doors.about("in a text")
    assert line["statement"] == "SELECT 'bsk_…' AS t, 'in a text' AS mark"
    assert ann not in json.dumps(doors.lines())


@pytest.mark.parametrize("door", ["http", "flight", "postgres"])
def test_a_token_that_does_not_count_is_refused_at_every_door(doors: Three, door: str) -> None:
    for bad, said in (
        (token("analysts", after_s=-5), "ended at"),
        (token("strangers"), "names no group"),
        (token("analysts", aud="mail"), "does not count here"),
        (Signer("ES256").token(claims(exp=9e9)), "does not count here"),
    ):
        if door == "http":
            with doors.served.as_(bad) as client:
                answer = client.get("/v1/whoami")
            assert answer.status_code == 401
            assert said in answer.json()["message"]
        elif door == "flight":
            with pytest.raises(pa.ArrowException, match=said), doors.client(bad) as client_:
                client_.query(COUNT)
        else:
            with pytest.raises(PermissionError, match=said):
                doors.raw(bad)


def test_tokens_of_the_configuration_count_beside_them(doors: Three) -> None:
    with doors.served.as_(WRITE) as client:
        assert client.get("/v1/whoami").status_code == 200


def test_the_keys_of_a_file_are_read_again(doors: Three, tmp_path: Path) -> None:
    keys = doors.gateway.settings.issuers[0].keys
    newer = Signer("EdDSA", kid="newer")
    Path(keys).write_bytes(published(SIGNER, newer))
    people = doors.gateway.gate.people
    exp = World.real().clock.now_ms() / 1000 + 600
    mine = newer.token(claims(exp=exp))
    with doors.served.as_(mine) as client:
        assert client.get("/v1/whoami").status_code == 401
    people.look()
    (_, own), *_ = people._issuers.values()
    own._next_s = 0.0
    people.look()
    with doors.served.as_(mine) as client:
        assert client.get("/v1/whoami").status_code == 200
