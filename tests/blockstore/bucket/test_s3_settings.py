"""Which environments obstore understands, and which only boto3 does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blockstore.bucket.s3_settings import needs_boto3

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def use(monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def test_keys_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, **KEYS, AWS_REGION="eu-central-1", AWS_SESSION_TOKEN="t")
    assert not needs_boto3("bucket")


@pytest.mark.parametrize(
    "settings",
    [
        {"AWS_CA_BUNDLE": "/x"},
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
        {"AWS_REGION": "cn-north-1"},
        {"AWS_DEFAULT_REGION": "us-iso-east-1"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_obstore_does_not_know_are_boto3s(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    use(monkeypatch, **KEYS, **settings)
    assert needs_boto3("bucket")


@pytest.mark.parametrize("name", ["arn:aws:s3:eu-west-1:1:accesspoint/x", "b--use1-az4--x-s3"])
def test_names_that_obstore_does_not_know_are_boto3s(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    use(monkeypatch, **KEYS)
    assert needs_boto3(name)


def test_certificates_do_not_matter_where_nothing_is_encrypted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, **KEYS, AWS_CA_BUNDLE="/x", AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert not needs_boto3("bucket")
    use(monkeypatch, AWS_ENDPOINT_URL="https://127.0.0.1:1")
    assert needs_boto3("bucket")


def test_no_credentials_are_boto3s_to_say() -> None:
    assert needs_boto3("bucket")


def test_a_profile_that_is_missing_is_boto3s_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, AWS_PROFILE="missing")
    assert needs_boto3("bucket")


@pytest.mark.parametrize(
    ("line", "boto3"),
    [
        ("region = eu-west-1", False),
        ("region = cn-north-1", True),
        ("endpoint_url = http://127.0.0.1:1", True),
        ("s3 =\n  addressing_style = virtual", True),
        ("a_setting_of_a_later_release = 1", True),
    ],
)
def test_a_profile_that_says_more_than_region_and_credentials_is_boto3s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, boto3: bool
) -> None:
    (tmp_path / "config").write_text(f"[default]\n{line}\n")
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
    )
    assert needs_boto3("bucket") is boto3
    use(monkeypatch, **KEYS)
    assert needs_boto3("bucket") is boto3


def test_keys_alone_import_no_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, **KEYS)
    code = (
        "import sys\n"
        "from blockstore.bucket.s3_settings import needs_boto3\n"
        "assert not needs_boto3('bucket')\n"
        "assert not {'boto3', 'botocore'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
