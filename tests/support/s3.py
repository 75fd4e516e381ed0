"""Real S3 servers for tests, SeaweedFS and Ceph: started once a test process at their first use,
ended with it.

Each pytest-xdist worker starts its own, on free ports in a folder of its own, so that none depends
on another. The server watches this process and ends by itself should it be killed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blockstore.clock import SystemClock
from blockstore.ids import Ids

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "s3-server"
BUCKET = "blockstore-tests"


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's endpoint; endpoint and credentials are in the environment until the session
    ends."""
    with _server(tmp_path_factory, "weed") as settings, pytest.MonkeyPatch.context() as patch:
        _use(patch, settings)
        make_bucket(BUCKET)
        yield settings["AWS_ENDPOINT_URL"]


@pytest.fixture
def s3_url(s3_server: str) -> str:
    """A fresh place on the server: ``s3://bucket/prefix-<token>``, empty."""
    return _fresh_url()


@pytest.fixture(scope="session")
def rgw_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a Ceph gateway; skips, loudly, where its packages are missing."""
    installed = subprocess.run(
        [str(SCRIPT), "install", "rgw"], stderr=subprocess.PIPE, text=True, check=False
    )
    if installed.returncode:
        pytest.skip(installed.stderr.strip().removeprefix("s3-server: "))
    with _server(tmp_path_factory, "rgw") as settings:
        with pytest.MonkeyPatch.context() as patch:
            _use(patch, settings)
            make_bucket(BUCKET)
        yield settings


@pytest.fixture
def rgw_url(rgw_settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh place on the Ceph gateway, which the environment names until the test ends."""
    _use(monkeypatch, rgw_settings)
    return _fresh_url()


def make_bucket(name: str) -> None:
    """Create a bucket on the server that the environment names."""
    import boto3

    boto3.client("s3").create_bucket(Bucket=name)


def _fresh_url() -> str:
    return f"s3://{BUCKET}/prefix-{Ids(SystemClock()).token()}"


@contextmanager
def _server(tmp_path_factory: pytest.TempPathFactory, kind: str) -> Iterator[dict[str, str]]:
    """Run a server of its own; gives the variables by which clients find it."""
    root = tmp_path_factory.mktemp(f"s3-{kind}") / "root"
    started = subprocess.run(
        [str(SCRIPT), "start", kind, "--root", str(root), "--while", str(os.getpid())],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    exports = [line.removeprefix("export ").partition("=") for line in started.stdout.splitlines()]
    try:
        yield {name: shlex.split(value)[0] for name, _, value in exports}
    finally:
        subprocess.run([str(SCRIPT), "stop", "--root", str(root)], check=True)


def _use(patch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """Put a server into the environment, and nothing of another."""
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(variable)
    for name, value in settings.items():
        patch.setenv(name, value)
