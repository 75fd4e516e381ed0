"""The project's S3 server for a bench: started, with an empty bucket, and ended."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.latency.process import prefer
from bench.peers.s3.place import BUCKET

__all__ = ["server"]

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "s3-server"


@contextmanager
def server(root: Path) -> Iterator[dict[str, str]]:
    """Run a server with its files in ``root``; gives the variables by which clients find it.

    The environment of this process names it too until the end, and it has the bucket ``BUCKET``.
    """
    import boto3

    started = subprocess.run(
        [str(SCRIPT), "start", "--root", str(root), "--while", str(os.getpid())],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    exports = [line.removeprefix("export ").partition("=") for line in started.stdout.splitlines()]
    settings = {name: shlex.split(value)[0] for name, _, value in exports}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    for pid in (root / "pid").read_text().split():
        for thread in Path(f"/proc/{pid}/task").iterdir():
            prefer(int(thread.name))
    try:
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield settings
    finally:
        subprocess.run([str(SCRIPT), "stop", "--root", str(root)], check=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
