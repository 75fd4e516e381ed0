"""People who come in by the token of an OpenID provider: who counts, and for what."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from http.client import BadStatusLine, IncompleteRead, InvalidURL
from pathlib import Path
from typing import Any

import pytest

from blockstore.clock import ManualClock
from blockstore.errors import Invalid
from blockstore.reader.http.gate import Gate
from blockstore.reader.http.issuer_keys import IssuerKeys, read
from blockstore.reader.http.people import Group, Issuer, People
from blockstore.reader.http.problems import Refusal
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.service.listening import Listening
from blockstore.service.serving import Server
from tests.reader.http.issuer import AUDIENCE, URL, Signer, claims, coded, forged, published

ISSUER = Issuer(name="company", url=URL, audience=AUDIENCE)
ANALYSTS = Group(
    name="analysts",
    scopes=frozenset({Scope.READ}),
    tables=frozenset({"sales_*"}),
    queries_at_once=2,
)
ADMINS = Group(name="admins", scopes=frozenset({Scope.ADMIN}))
SIGNERS = {alg: Signer(alg) for alg in ("RS256", "ES256", "EdDSA")}
RSA = SIGNERS["RS256"]


class Provider:
    """What can be read of a provider, which a test may change."""

    def __init__(self, *signers: Signer) -> None:
        self.keys = published(*signers)
        self.reads = 0
        self.error: Exception | None = None

    def read(self, where: str) -> bytes:
        self.reads += 1
        if self.error is not None:
            raise self.error
        if where.endswith("openid-configuration"):
            return json.dumps({"issuer": URL, "jwks_uri": f"{URL}/keys"}).encode()
        return self.keys


def gate(
    *signers: Signer,
) -> tuple[Gate, ManualClock, Provider]:
    """At a half of the time that a token of ``claims`` counts."""
    clock, provider = ManualClock(500_000), Provider(*(signers or (RSA,)))
    people = People([ISSUER], (ADMINS, ANALYSTS), clock, read=provider.read)
    people.look()
    return Gate((), clock, people), clock, provider


def come(where: Gate, token: str) -> Caller:
    return where.caller(f"Bearer {token}")


@pytest.mark.parametrize("alg", SIGNERS)
def test_a_person_has_the_rights_of_the_group(alg: str) -> None:
    own, _, _ = gate(SIGNERS[alg])
    assert own.asks
    caller = come(own, SIGNERS[alg].token(claims()))
    assert caller == Caller(
        name="ann@example.com",
        fingerprint=caller.fingerprint,
        scopes=ANALYSTS.scopes,
        tables=ANALYSTS.tables,
        queries_at_once=2,
    )
    again = come(own, SIGNERS[alg].token(claims(exp=999, email="ann@elsewhere.com")))
    assert again.fingerprint == caller.fingerprint
    assert again.name == "ann@elsewhere.com"
    other = come(own, SIGNERS[alg].token(claims(sub="0002")))
    assert other.fingerprint != caller.fingerprint
    assert own.name_of(other.fingerprint) == "ann@example.com"


@pytest.mark.parametrize(
    ("groups", "scopes"),
    [
        (["analysts", "admins"], {Scope.ADMIN}),
        (["admins"], {Scope.ADMIN}),
        ("analysts", {Scope.READ}),
    ],
)
def test_of_several_groups_the_first_of_the_configuration_counts(
    groups: object, scopes: set[Scope]
) -> None:
    own, _, _ = gate()
    assert come(own, RSA.token(claims(groups=groups))).scopes == scopes


OTHERS = Signer("RS256")
REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "no group": (lambda: RSA.token(claims(groups=["staff"])), "names no group"),
    "no groups": (lambda: RSA.token(claims(groups=None)), "names no group"),
    "odd groups": (lambda: RSA.token(claims(groups={"analysts": 1})), "names no group"),
    "ended": (lambda: RSA.token(claims(exp=400)), "ended at 1970"),
    "not begun": (lambda: RSA.token(claims(nbf=900)), "begins at"),
    "for another program": (lambda: RSA.token(claims(aud="mail")), "does not count here"),
    "for no one": (lambda: RSA.token(claims(aud=None)), "does not count here"),
    "without an end": (lambda: RSA.token({**claims(), "exp": None}), "does not count here"),
    "an end that is a text": (lambda: RSA.token(claims(exp="1000")), "no end"),
    "an end that is true": (lambda: RSA.token(claims(exp=True)), "no end"),
    "an endless end": (lambda: RSA.token(claims(exp=1e300)), "no end"),
    "without a subject": (lambda: RSA.token(claims(sub="")), "no subject"),
    "another's key": (lambda: OTHERS.token(claims()), "does not count here"),
    "begun at a text": (lambda: RSA.token(claims(nbf="9999999999")), "when it begins"),
    "begun in milliseconds": (lambda: RSA.token(claims(nbf=1e12)), "when it begins"),
    "an odd algorithm": (
        lambda: RSA.token(claims(), {"alg": "\ud800\x1b\n"}),
        r"'.ud800.x1b.n' is not accepted",
    ),
    "an unknown key": (lambda: RSA.token(claims(), {"kid": "two"}), "not known here"),
    "an odd key": (lambda: RSA.token(claims(), {"kid": 5}), "missing or unknown"),
    "unsigned": (lambda: forged(claims(), "none", b""), "'none' is not accepted"),
    "a shared secret": (lambda: forged(claims(), "HS256", RSA.pem), "'HS256' is not accepted"),
    "another algorithm": (lambda: RSA.token(claims(), {"alg": "PS256"}), "does not count here"),
    "a critical extension": (
        lambda: RSA.token(claims(), {"crit": ["b64"], "b64": False}),
        "missing or unknown",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_count_is_refused_with_a_sentence(why: str) -> None:
    make, said = REFUSED[why]
    own, _, _ = gate(RSA, Signer("ES256", kid="other"))
    with pytest.raises(Refusal, match=said) as found:
        come(own, make())
    assert found.value.status_code == 401
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "..",
        "a.b",
        "bsk_x",
        "x.y." * 5_000,
        f"{coded(b'[]')}.{coded(b'{}')}.eHg",
        f"{coded(b'[' * 6_000)}.{coded(b'{}')}.eHg",
        RSA.token({}).replace(".", f".{coded(b'[' * 6_000)}.", 1).rpartition(".")[0],
        f"{RSA.token({}).partition('.')[0]}.{coded(b'1' * 9_000)}.eHg",
        f"{RSA.token({}).partition('.')[0]}.{coded(b'[' * 9_000)}.eHg",
        "\udcff.a.b",
    ],
)
def test_what_is_no_token_of_an_issuer_is_unknown(token: str) -> None:
    own, _, _ = gate()
    with pytest.raises(Refusal, match="missing or unknown"):
        come(own, token)


def test_a_token_of_another_issuer_is_unknown() -> None:
    own, _, _ = gate()
    with pytest.raises(Refusal, match="missing or unknown"):
        come(own, RSA.token(claims(iss="https://login.example.org")))


@pytest.mark.parametrize("place", ["header", "payload", "signature"])
def test_one_changed_bit_is_no_token(place: str) -> None:
    own, _, _ = gate()
    names = ("header", "payload", "signature")
    parts = dict(zip(names, RSA.token(claims()).split("."), strict=True))
    came = 0
    for at in range(0, len(parts[place]), 7):
        letters = list(parts[place])
        letters[at] = "A" if letters[at] != "A" else "B"
        token = ".".join({**parts, place: "".join(letters)}.values())
        try:
            come(own, token)
        except Refusal:
            continue
        came += 1
    assert came == 0


@pytest.mark.parametrize("name", [None, 5, "", "a\nb", "\u202eevil", ["x"]])
def test_an_odd_name_is_not_used(name: object) -> None:
    own, _, _ = gate()
    assert come(own, RSA.token(claims(email=name))).name == "0001"
    assert len(come(own, RSA.token(claims(email="x" * 9_000))).name) == 200


def test_an_open_connection_ends_with_its_token_and_its_rights() -> None:
    own, clock, _ = gate()
    caller = come(own, RSA.token(claims()))
    own.check(caller)
    assert own.left_s(caller) == 500
    own.people.exchange([ISSUER], [Group(name="analysts", scopes=frozenset({Scope.WRITE}))])
    with pytest.raises(Refusal, match="have changed"):
        own.check(caller)
    own.people.exchange([ISSUER], [])
    with pytest.raises(Refusal, match="names no group"):
        own.check(caller)
    own.people.exchange([ISSUER], [ANALYSTS])
    own.check(caller)
    clock.advance(500)
    with pytest.raises(Refusal, match="ended at 1970-01-01T00:16:40Z"):
        own.check(caller)
    own.people.exchange([], [ANALYSTS])
    with pytest.raises(Refusal):
        own.check(caller)


def test_an_open_connection_lives_by_its_own_token() -> None:
    """Not by another one of the same person, which ends later, or has another name."""
    own, clock, _ = gate()
    short = come(own, RSA.token(claims(exp=600)))
    long = come(own, RSA.token(claims(exp=9_000, email=None)))
    assert short.fingerprint == long.fingerprint
    own.check(short)
    assert own.left_s(short) == 100
    clock.advance(100)
    own.check(long)
    with pytest.raises(Refusal, match="ended at"):
        own.check(short)


def test_an_open_connection_goes_by_the_groups_and_the_provider_of_now() -> None:
    own, _, _ = gate()
    caller = come(own, RSA.token(claims(groups=["analysts", "blocked"])))
    blocked = Group(name="blocked", scopes=ANALYSTS.scopes, tables=frozenset({"nothing"}))
    own.people.exchange([ISSUER], [blocked, ANALYSTS])
    with pytest.raises(Refusal, match="have changed"):
        own.check(caller)
    assert come(own, RSA.token(claims(groups=["analysts", "blocked"]))).tables == blocked.tables
    own.people.exchange([ISSUER], [ANALYSTS])
    own.check(caller)
    own.people.exchange([replace(ISSUER, audience="others")], [ANALYSTS])
    with pytest.raises(Refusal, match="provider that has changed"):
        own.check(caller)


def test_keys_stay_with_an_issuer_of_which_something_else_changes() -> None:
    own, clock, provider = gate()
    provider.error = OSError("away")
    for name in ("name", "nickname"):
        own.people.exchange([replace(ISSUER, name_claim=name)], [ANALYSTS])
        own.people.look()
    assert provider.reads == 2
    assert come(own, RSA.token(claims())).scopes == ANALYSTS.scopes
    assert clock.now_ms() == 500_000


@pytest.mark.parametrize(
    ("verified", "counts"),
    [
        (True, True),
        ("true", True),
        (False, False),
        ("false", False),
        ("False", False),
        ("", False),
        (0, False),
        (1, False),
        (None, False),
        ([], False),
    ],
)
def test_a_name_counts_only_if_it_is_said_to_be_verified(verified: object, counts: bool) -> None:
    own, _, _ = gate()
    own.people.exchange([replace(ISSUER, name_claim="email")], [ANALYSTS])
    own.people.look()
    said = claims(email="boss@example.com", email_verified=verified)
    assert come(own, RSA.token(said)).name == ("boss@example.com" if counts else said["sub"])


@pytest.mark.parametrize(
    "sent",
    [
        IncompleteRead(b""),
        BadStatusLine("garbage"),
        RecursionError("deep"),
        UnicodeError("odd"),
        InvalidURL("odd"),
    ],
)
def test_whatever_a_provider_sends_the_gateway_goes_on(sent: Exception) -> None:
    own, clock, provider = gate()
    provider.error = sent
    clock.advance(3_600)
    own.people.look()
    assert type(sent).__name__ in (own.people.broken or "")
    come(own, RSA.token(claims(exp=9_000)))


def test_odd_keys_among_good_ones_are_left_out() -> None:
    own, clock, provider = gate()
    odd = [
        {**RSA.public, "kid": ["x"]},
        {**RSA.public, "alg": ["RS256"]},
        {**RSA.public, "alg": {}, "kid": "b"},
        {**Signer("RS256", kid="weak", bits=1024).public},
    ]
    provider.keys = json.dumps({"keys": [*odd, RSA.public]}).encode()
    clock.advance(3_600)
    own.people.look()
    assert own.people.broken is None
    come(own, RSA.token(claims(exp=9_000)))
    (_, keys), *_ = own.people._issuers.values()
    assert keys.key("weak") is None


@pytest.mark.parametrize("alg", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_an_rsa_key_counts_for_the_algorithm_that_it_names_or_for_all(alg: str) -> None:
    own, clock, provider = gate()
    token = RSA.token_as(alg, claims(exp=9_000))
    if alg == "RS256":
        come(own, token)
    else:
        with pytest.raises(Refusal, match="does not count here"):
            come(own, token)
    bare = {name: value for name, value in RSA.public.items() if name != "alg"}
    provider.keys = json.dumps({"keys": [bare]}).encode()
    clock.advance(3_600)
    own.people.look()
    assert come(own, token).name == "ann@example.com"
    for bad in (f"{token[:-8]}AAAAAAAA", forged(claims(exp=9_000), "HS256", RSA.pem)):
        with pytest.raises(Refusal, match="does not count here"):
            come(own, bad)


def test_new_keys_are_read_soon_and_no_caller_waits_for_them() -> None:
    own, clock, provider = gate()
    assert provider.reads == 2
    newer = Signer("ES256", kid="newer")
    provider.keys = published(newer)
    for _ in range(50):
        with pytest.raises(Refusal, match="not known here"):
            come(own, newer.token(claims()))
        own.people.look()
    assert provider.reads == 2, "at most twice a minute, whatever callers send"
    clock.advance(30)
    own.people.look()
    assert provider.reads == 4
    come(own, newer.token(claims()))
    with pytest.raises(Refusal):
        come(own, RSA.token(claims()))
    clock.advance(1)
    own.people.look()
    assert provider.reads == 4


def test_while_keys_cannot_be_read_those_of_before_count() -> None:
    own, clock, provider = gate()
    provider.error = OSError("no route")
    clock.advance(3_600)
    own.people.look()
    assert "those of before are used: OSError: no route" in (own.people.broken or "")
    come(own, RSA.token(claims(exp=9_000)))
    provider.error = None
    clock.advance(30)
    own.people.look()
    assert own.people.broken is None


@pytest.mark.parametrize(
    "keys",
    [
        b"",
        b"[]",
        b'{"keys": 5}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b'{"keys": [{"kty": "RSA"}, 7, {"kty": "XX"}]}',
    ],
)
def test_keys_that_are_none_are_said_to_be_broken(keys: bytes) -> None:
    clock, provider = ManualClock(0), Provider(RSA)
    provider.keys = keys
    own = IssuerKeys(URL, "https://login.example.com/keys", clock, provider.read)
    own.look()
    assert "its tokens are refused" in (own.broken or "")
    assert own.key("one") is None


def test_keys_are_read_from_a_file_and_over_http(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(published(RSA))
    own = IssuerKeys(URL, str(tmp_path / "keys.json"), ManualClock(0), read)
    own.look()
    assert own.key("one") is not None
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    made: list[str] = []

    def described(_: Any) -> Response:
        said = {"issuer": made[0], "jwks_uri": f"{made[0]}/keys"}
        return Response(json.dumps(said), media_type="application/json")

    def keys(_: Any) -> Response:
        return Response(published(RSA))

    def moved(_: Any) -> Response:
        return Response(status_code=302, headers={"location": "http://192.0.2.2/keys"})

    app = Starlette(
        routes=[
            Route("/.well-known/openid-configuration", described),
            Route("/keys", keys),
            Route("/moved", moved),
        ]
    )
    with Server(app, Listening(host="127.0.0.1", port=0)) as server:
        made.append(server.url)
        own = IssuerKeys(server.url, "", ManualClock(0), read)
        own.look()
        assert own.broken is None
        assert own.key(None) is not None
        elsewhere = IssuerKeys(f"{server.url}/", "", ManualClock(0), read)
        elsewhere.look()
        assert "of another issuer" in (elsewhere.broken or "")
        with pytest.raises(
            Invalid, match=r"a redirect of the provider is 'http://192\.0\.2\.2/keys'"
        ):
            read(f"{server.url}/moved")


def test_a_description_that_names_keys_without_tls_is_not_followed() -> None:
    clock, provider = ManualClock(0), Provider(RSA)

    def described(where: str) -> bytes:
        provider.reads += 1
        return json.dumps({"issuer": URL, "jwks_uri": "http://login.example.com/keys"}).encode()

    own = IssuerKeys(URL, "", clock, described)
    own.look()
    assert "expected an https:// URL" in (own.broken or "")
    assert provider.reads == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "http://login.example.com"}, "expected an https"),
        ({"url": "ftp://x"}, "expected an https"),
        ({"audience": ""}, "has no audience"),
        ({"keys": "http://elsewhere/keys"}, "expected an https"),
        ({"keys": "https:/elsewhere/keys"}, "complete path"),
        ({"keys": "~/keys"}, "complete path"),
        ({"url": "https://[login.example.com"}, "expected an https"),
        ({"url": "https://"}, "expected an https"),
        ({"url": "https://u:secret@login.example.com"}, "without a password"),
        ({"groups_claim": ""}, "without a name"),
    ],
)
def test_an_issuer_that_cannot_be_trusted_is_refused(fields: dict[str, str], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        Issuer(**{"name": "company", "url": URL, "audience": AUDIENCE, **fields})
