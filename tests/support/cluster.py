"""A standalone Spark cluster on this machine: a master and two workers, whose executors are
processes of their own.

The workers stand on two loopback addresses, which Spark takes for two hosts. They are started by
PySpark's own ``spark-class``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark

__all__ = ["WORKERS", "kill_worker", "standalone"]

WORKERS = ("127.0.0.1", "127.0.0.2")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextlib.contextmanager
def standalone(folder: Path, *, memory: str, environment: dict[str, str]) -> Iterator[str]:
    """The master's address, while it and its workers run, of one core each; they log into the
    folder and know of ``environment`` only. All of them are killed at the end, their executors too.
    """
    with socket.socket() as free:
        free.bind((WORKERS[0], 0))
        port = free.getsockname()[1]
    address = f"spark://{WORKERS[0]}:{port}"
    with contextlib.ExitStack() as stack:
        master = ["--port", str(port), "--webui-port", "0"]
        _start(stack, folder, environment, "master.Master", WORKERS[0], *master)
        for host in WORKERS:
            work = [
                "--work-dir",
                str(folder / host),
                "--cores",
                "1",
                "--memory",
                memory,
                "--webui-port",
                "0",
            ]
            _start(stack, folder, environment, "worker.Worker", host, *work, address)
        yield address


def kill_worker(folder: Path, host: str) -> None:
    """Kill a worker of the cluster that logs into the folder, with its executors."""
    os.killpg(int(_process_file(folder, "worker.Worker", host).read_text()), signal.SIGKILL)


def _process_file(folder: Path, kind: str, host: str) -> Path:
    return folder / f"{kind}-{host}.pid"


def _start(
    stack: contextlib.ExitStack,
    folder: Path,
    environment: dict[str, str],
    kind: str,
    host: str,
    *arguments: str,
) -> None:
    log = stack.enter_context((folder / f"{kind}-{host}.log").open("wb"))
    process = subprocess.Popen(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind}",
            "--host",
            host,
            *arguments,
        ],
        cwd=folder,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={
            **environment,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
        },
    )

    _process_file(folder, kind, host).write_text(str(process.pid))

    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    stack.callback(end)
