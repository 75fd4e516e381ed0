"""``serve --postgres-port``: where the door opens, and where it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.errors import Invalid
from blockstore.reader import serve_verbs
from blockstore.reader.settings import DoorSettings, GatewaySettings, load_settings


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[GatewaySettings]:
    found: list[GatewaySettings] = []
    monkeypatch.setattr(serve_verbs, "_run", lambda settings, config: found.append(settings))
    return found


def test_a_door_without_a_port_is_closed(ran: list[GatewaySettings]) -> None:
    serve_verbs.serve("lake", no_auth=True)
    settings = ran[0]
    assert settings.postgres.listening(settings.http.listening).off


def test_the_option_opens_it_at_the_address_of_http(ran: list[GatewaySettings]) -> None:
    serve_verbs.serve("lake", no_auth=True, postgres_port=5432)
    settings = ran[0]
    found = settings.postgres.listening(settings.http.listening)
    assert (found.host, found.port) == ("127.0.0.1", 5432)


def test_the_file_opens_it_and_the_option_overrides_the_port(
    ran: list[GatewaySettings], tmp_path: Path
) -> None:
    file = tmp_path / "reader.toml"
    file.write_text('[postgres]\nlisten = "127.0.0.2:5433"\n')
    assert load_settings(file, {}).postgres == DoorSettings(host="127.0.0.2", port=5433)
    serve_verbs.serve("lake", config=file, no_auth=True, postgres_port=0)
    assert ran[0].postgres == DoorSettings(host="127.0.0.2", port=0)


def test_no_auth_needs_a_loopback_address_of_every_door(
    ran: list[GatewaySettings], tmp_path: Path
) -> None:
    file = tmp_path / "reader.toml"
    file.write_text('[postgres]\nlisten = "0.0.0.0:5433"\n')
    with pytest.raises(Invalid, match=r"--no-auth with 0\.0\.0\.0 would give every caller access"):
        serve_verbs.serve("lake", config=file, no_auth=True)
    assert ran == []


def test_the_door_has_the_certificate_of_http(tmp_path: Path) -> None:
    settings = load_settings(None, {})
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    secure = replace(settings.http.listening, tls_cert=cert, tls_key=key)
    found = DoorSettings(host="0.0.0.0", port=1).listening(secure)
    assert (found.tls_cert, found.tls_key) == (cert, key)
