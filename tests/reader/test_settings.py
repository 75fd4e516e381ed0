"""The gateway's settings, its tokens, and the two verbs' refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blockstore.cli.main import run
from blockstore.errors import Invalid
from blockstore.reader.http.tokens import Scope, hashed
from blockstore.reader.settings import load_settings

HASH = hashed("bsk_test")


def written(folder: Path, text: str) -> Path:
    path = folder / "reader.toml"
    path.write_text(text)
    return path


def test_the_defaults_are_those_of_the_design() -> None:
    made = load_settings(None, {})
    assert (made.tables.poll_s, made.tables.idle_s, made.tables.max_staleness_s) == (15, 3600, 600)
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
            "expected read or write or admin",
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


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["serve"], "URL"),
        (["serve", "memory://x"], "--no-auth"),
        (["serve", "memory://x", "--no-auth", "--host", "0.0.0.0"], "every caller"),
        (["serve", "memory://x", "--config", "/nonexistent.toml"], "no configuration file"),
        (["token", "x", "--scope", "admin", "--table", "t"], "admin"),
    ],
)
def test_the_gateway_does_not_start_where_it_could_not_be_meant(
    capsys: pytest.CaptureFixture[str], words: list[str], reported: str
) -> None:
    assert run(words) != 0
    assert reported in capsys.readouterr().err
