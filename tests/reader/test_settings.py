"""The gateway's settings, its tokens, and the two verbs' refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from blockstore.cli.main import run
from blockstore.errors import Invalid
from blockstore.reader.http.tokens import Scope, hashed
from blockstore.reader.settings import load_settings
from tests.repo.fenced import blocks

HASH = hashed("bsk_test")


def written(folder: Path, text: str) -> Path:
    path = folder / "reader.toml"
    path.write_text(text)
    return path


def test_the_defaults_are_those_of_the_design() -> None:
    made = load_settings(None, {})
    assert (made.tables.poll_s, made.tables.active_for_s) == (15, 600)
    assert made.tables.max_staleness_s == 600
    assert (made.tables.strict, made.tables.discovery) == (True, "index")
    assert (made.cache.size_bytes, made.query.memory_bytes) == (10 << 30, 4 << 30)
    assert (made.http.listening.host, made.http.listening.port) == ("127.0.0.1", 8080)
    assert made.tokens == ()


def test_tokens_are_read_by_name(tmp_path: Path) -> None:
    text = (
        f'[tokens."grafana"]\nsha256 = "{HASH}"\ntables = ["flights"]\n[tokens."me"]\nsha256 = '
        f'"{"a" * 64}"\nscopes = ["admin"]\n'
    )
    grafana, me = load_settings(written(tmp_path, text), {}).tokens
    assert (grafana.name, grafana.scopes, grafana.tables) == (
        "grafana",
        frozenset({Scope.READ}),
        frozenset({"flights"}),
    )
    assert (me.scopes, me.tables) == (frozenset({Scope.ADMIN}), None)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('[tokens."a"]\nscopes = ["read"]\n', "blockstore token"),
        (
            f'[tokens."a"]\nsha256 = "{HASH}"\nscopes = ["reed"]\n',
            "expected read or write or ddl or admin",
        ),
        (f'[tokens."a"]\nsha256 = "{HASH}"\nscopes = []\n', "no scopes"),
        (f'[tokens."a"]\nsha256 = "{HASH}"\ntoken = "bsk_x"\n', "token"),
        ('[tables]\npoll = "20m"\n', "max_staleness"),
        ('[jobs]\nlease = "1s"\n', "lease"),
        ("[http]\nport = 1\n", "port"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_fix(
    tmp_path: Path, text: str, reported: str
) -> None:
    with pytest.raises(Invalid, match=reported):
        load_settings(written(tmp_path, text), {})


def test_a_token_is_shown_once_and_its_hash_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            [
                "token",
                "grafana",
                "--scope",
                "read",
                "--scope",
                "write",
                "--table",
                "flights",
                "--json",
            ]
        )
        == 0
    )
    reported = json.loads(capsys.readouterr().out)
    assert hashed(reported["token"]) == reported["sha256"]
    assert (reported["scopes"], reported["tables"]) == (["read", "write"], ["flights"])
    assert run(["token", "grafana"]) == 0
    out, err = capsys.readouterr()
    assert hashed(out.strip()) in err
    assert out.strip() not in err


def test_a_token_with_an_end_is_printed_as_the_file_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["token", "me", "--expires", "2100-01-01T02:00:00+02:00", "--table", "sales_*"]
    assert run([*words, "--scope", "ddl"]) == 0
    lines = capsys.readouterr().err.partition("[tokens")
    (made,) = load_settings(written(tmp_path, lines[1] + lines[2]), {}).tokens
    assert made.expires_ms == 4_102_444_800_000
    assert (made.scopes, made.tables) == ({Scope.DDL}, {"sales_*"})


def test_the_guides_token_is_read(tmp_path: Path) -> None:
    block, *_ = [one for one in blocks("docs/guides/gateway.md") if one.language == "toml"]
    (made,) = load_settings(written(tmp_path, block.text.replace("…", HASH)), {}).tokens
    assert (made.name, made.tables) == ("grafana", {"flights", "sales_*"})
    assert (made.expires_ms, made.queries_at_once) == (1_798_761_600_000, 4)


def test_the_guides_groups_of_gateways_are_read(tmp_path: Path) -> None:
    *_, by_list, by_name = [
        one for one in blocks("docs/guides/gateway.md") if one.language == "toml"
    ]
    listed = load_settings(written(tmp_path, by_list.text), {}).peers
    assert len(listed.urls) == 3
    assert listed.own == listed.urls[0]
    named = load_settings(written(tmp_path, by_name.text), {}).peers
    assert named.dns is not None
    assert (named.dns.url, named.urls) == ("https://gateways.internal:8080", ())


def test_the_guides_policy_is_read(tmp_path: Path) -> None:
    _, block, *_ = [one for one in blocks("docs/guides/gateway.md") if one.language == "toml"]
    (made,) = load_settings(written(tmp_path, block.text.replace("…", HASH)), {}).tokens
    (policy,) = made.policies
    assert (made.name, policy.name, policy.tables) == ("acme", "own-orders", {"orders", "orders_*"})
    assert policy.rows == "tenant = current_user AND day >= DATE '2026-01-01'"
    assert (policy.columns, policy.hide) == (None, {"card_number"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[policies."p"]\ntables = ["t"]', "restricts nothing"),
        ('[policies."p"]\nrows = "a = 1"', "names no tables"),
        ('[policies."p"]\ntables = ["t"]\nrows = "a = "', "cannot read the condition"),
        ('[policies."p"]\ntables = ["t"]\nrows = "a LIKE current_user"', "in a pattern"),
        ('[policies."p"]\ntables = ["t"]\nhide = ["a"]\ncolumns = ["b"]', "columns and hide"),
        (f'[tokens."a"]\nsha256 = "{HASH}"\npolicies = ["p"]', "names the policy 'p'"),
        ('[groups."g"]\npolicies = ["p"]', "names the policy 'p'"),
        (
            (
                '[policies."p"]\ntables = ["t"]\nrows = "a = 1"\n'
                f'[tokens."a"]\nsha256 = "{HASH}"\nscopes = ["admin"]\npolicies = ["p"]'
            ),
            "admin and policies",
        ),
        (f'[tokens."a"]\nsha256 = "{HASH}"\ntables = ["*", "!t"]', "begins with !"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_as_a_whole(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(said)):
        load_settings(written(tmp_path, text), {})


def test_the_guides_provider_is_read(tmp_path: Path) -> None:
    _, _, block, *_ = [one for one in blocks("docs/guides/gateway.md") if one.language == "toml"]
    for text in (block.text, re.sub(r"(?m)^# ", "", block.text)):
        read = load_settings(written(tmp_path, text), {})
        (issuer,), (group,) = read.issuers, read.groups
        assert (issuer.url, issuer.audience) == ("https://login.example.com", "blockstore")
        assert (issuer.name_claim, issuer.groups_claim) == ("email", "groups")
        assert (group.name, group.tables, group.queries_at_once) == ("analysts", {"sales_*"}, 4)
        assert group.scopes == {Scope.READ}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[issuers."a"]\nurl = "https://a"\naudience = "b"', "need one another"),
        ('[groups."g"]', "need one another"),
        ('[groups."g"]\nscopes = []', "no scopes"),
        ('[issuers."a"]\nurl = "https://a"\n[groups."g"]', "has no audience"),
        ('[issuers."a"]\naudience = "b"\n[groups."g"]', "expected an https"),
        ('[groups."g"]\nscopes = ["all"]', "scopes"),
        ('[groups."g"]\nscopes = ["admin"]\ntables = ["t"]', "remove one of them"),
        (
            "".join(
                f'[issuers."{name}"]\nurl = "https://a"\naudience = "b"\n' for name in ("a", "c")
            )
            + '[groups."g"]',
            "the same url",
        ),
    ],
)
def test_people_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        load_settings(written(tmp_path, text), {})


def test_an_end_may_be_a_moment_of_toml_and_needs_a_zone(tmp_path: Path) -> None:
    head = f'[tokens."a"]\nsha256 = "{HASH}"\n'
    (made,) = load_settings(written(tmp_path, f"{head}expires = 2027-01-01T00:00:00Z\n"), {}).tokens
    assert made.expires_ms == 1_798_761_600_000
    for wrong in ('"2027-01-01T00:00:00"', "2027-01-01", "2027-01-01T00:00:00", '"soon"', "7"):
        with pytest.raises(Invalid, match="expected a moment with its zone"):
            load_settings(written(tmp_path, f"{head}expires = {wrong}\n"), {})


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["serve"], "URL"),
        (["serve", "memory://x"], "--no-auth"),
        (["serve", "memory://x", "--no-auth", "--host", "0.0.0.0"], "every caller"),
        (["serve", "memory://x", "--no-auth", "--flight-port", "x"], "flight-port"),
        (["serve", "memory://x", "--no-auth", "--config", "wide.toml"], "every caller"),
        (["serve", "memory://x", "--config", "/nonexistent.toml"], "no configuration file"),
        (["token", "x", "--scope", "admin", "--table", "t"], "admin"),
        (["token", "x", "--expires", "2020-01-01T00:00:00Z"], "is over"),
        (["token", "x", "--expires", "tomorrow"], "a moment with its zone"),
    ],
)
def test_the_gateway_does_not_start_where_it_could_not_be_meant(
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    reported: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wide.toml").write_text('[flight]\nlisten = "0.0.0.0:0"\n')
    assert run(words) != 0
    assert reported in capsys.readouterr().err
