"""A real S3 server for tests: started once a test process at its first use, ended with it.

Each pytest-xdist worker starts its own, on free ports in a folder of its own, so that none depends on another. The
server watches this process and ends by itself should it be killed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockstore.clock import SystemClock
from blockstore.ids import Ids

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "s3-server"
BUCKET = "blockstore-tests"


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's endpoint; endpoint and credentials are in the environment until the session ends."""
    root = tmp_path_factory.mktemp("s3-server") / "root"
    started = subprocess.run(
        [str(SCRIPT), "start", "--root", str(root), "--while", str(os.getpid())],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    exports = [line.removeprefix("export ").partition("=") for line in started.stdout.splitlines()]
    try:
        with pytest.MonkeyPatch.context() as patch:
            for variable in [name for name in os.environ if name.startswith("AWS_")]:
                patch.delenv(variable)
            for name, _, value in exports:
                patch.setenv(name, shlex.split(value)[0])
            make_bucket(BUCKET)
            yield os.environ["AWS_ENDPOINT_URL"]
    finally:
        subprocess.run([str(SCRIPT), "stop", "--root", str(root)], check=True)


@pytest.fixture
def s3_url(s3_server: str) -> str:
    """A fresh place on the server: ``s3://bucket/prefix-<token>``, empty."""
    return f"s3://{BUCKET}/prefix-{Ids(SystemClock()).token()}"


def make_bucket(name: str) -> None:
    """Create a bucket on the server that the environment names."""
    import boto3

    boto3.client("s3").create_bucket(Bucket=name)
