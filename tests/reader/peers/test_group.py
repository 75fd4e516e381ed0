"""The section [peers], and how addresses are spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.errors import Invalid
from blockstore.reader.peers import Peers, PeerSettings
from blockstore.reader.peers.address import parsed
from blockstore.reader.peers.peers import leading
from blockstore.reader.settings import load_settings
from blockstore.world import World


def loaded(folder: Path, text: str) -> PeerSettings:
    path = folder / "reader.toml"
    path.write_text(f"[peers]\n{text}\n")
    return load_settings(path, {}).peers


def test_there_is_no_group_unless_one_is_configured(tmp_path: Path) -> None:
    assert not load_settings(None, {}).peers.any
    assert not loaded(tmp_path, 'self = "http://127.0.0.1:8080"').any


def test_a_group_by_its_list(tmp_path: Path) -> None:
    made = loaded(tmp_path, 'self = "https://B:8443/"\nurls = ["https://a:8443", "https://b:8443"]')
    assert made.own is not None
    assert made.own.url == "https://b:8443"
    assert [one.url for one in made.urls] == ["https://a:8443", "https://b:8443"]
    assert (made.lookup_s, made.retry_s) == (10, 5)


def test_a_group_by_its_name_and_the_environment() -> None:
    made = load_settings(
        None,
        {
            "BLOCKSTORE_PEERS_SELF": "https://[FD00:0::7]:8443",
            "BLOCKSTORE_PEERS_DNS": "https://gateways.internal.:8443",
        },
    ).peers
    assert made.own is not None
    assert made.dns is not None
    assert (made.own.url, made.dns.url) == (
        "https://[fd00::7]:8443",
        "https://gateways.internal:8443",
    )


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('urls = ["https://a:1"]', "no self"),
        ('self = "https://b:1"\nurls = ["https://a:1"]', "spell it as there"),
        ('self = "https://a:1"\nurls = ["https://a:1"]\ndns = "https://c:1"', "keep one of them"),
        ('self = "https://a:1"\ndns = "https://c:1"', "own address"),
        ('self = "https://10.0.0.1:2"\ndns = "https://c:1"', "the port of dns"),
        ('self = "http://10.0.0.1:1"\ndns = "http://c:1"', "plain_http"),
        ('self = "http://a:1"\nurls = ["http://a:1"]', "unencrypted"),
        ('self = "a:1"', "without a path"),
        ('self = "https://a:0"', "without a path"),
        ('self = "https://a:x"', "without a path"),
        ('self = "https://user:pw@a:1"', "without a path"),
        ('urls = ["https://a:1/path"]', "without a path"),
        ('urls = ["ftp://a:1"]', "without a path"),
        ('retry = "0s"', "at least"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, reported: str) -> None:
    with pytest.raises(Invalid, match=reported):
        loaded(tmp_path, text)


def test_http_beyond_this_machine_is_the_operators_word(tmp_path: Path) -> None:
    text = 'self = "http://a:1"\nurls = ["http://a:1"]\n'
    assert loaded(tmp_path, text + "plain_http = true").any
    assert loaded(tmp_path, text.replace("//a", "//127.0.0.1")).any


def test_one_address_has_one_spelling() -> None:
    for one in ("https://A.example:443", "https://a.example", "https://a.example.:443/"):
        assert parsed(one, "urls").url == "https://a.example:443"
    assert parsed("http://[0:0::1]", "urls").url == "http://[::1]:80"


def test_certificates_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    made = loaded(
        tmp_path, f'self = "https://a:1"\nurls = ["https://a:1"]\ntls_ca = "{tmp_path}/no.pem"'
    )
    with pytest.raises(Invalid, match="tls_ca"):
        Peers(made, World.manual(), patience_s=1)


def test_the_owner_of_a_join_is_that_of_its_largest_table() -> None:
    sizes = {"dim": 2 << 20, "fact": 1 << 40, "also": 2 << 20, "more": 3 << 20}
    assert leading({"dim", "fact"}, sizes.__getitem__) == "fact"
    assert leading({"dim", "also", "more"}, sizes.__getitem__) == "also", "about as large"
    assert leading({"dim", "also"}, lambda _: 0) == "also", "nothing is known"
