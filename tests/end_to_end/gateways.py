"""Gateways as processes of their own, by the command that a person types."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import httpx

from blockstore.world import World

_SERVING = re.compile(r"serving .* at (https?://\S+)")


class GatewayProcess:
    """``blockstore serve LAKE --no-auth``, with quick jobs; ends with the block."""

    def __init__(
        self,
        lake: str,
        folder: Path,
        name: str,
        *,
        address: tuple[str, int] = ("127.0.0.1", 0),
        **environment: str,
    ) -> None:
        self.log = folder / f"{name}.log"
        self._world = World.real()
        quick = {
            "BLOCKSTORE_TABLES_POLL": "200ms",
            "BLOCKSTORE_JOBS_POLL": "200ms",
            "BLOCKSTORE_JOBS_LEASE": "3s",
            "BLOCKSTORE_QUERY_MEMORY": "1GiB",
            "BLOCKSTORE_QUERY_THREADS": "1",
            "BLOCKSTORE_LOG_LEVEL": "warning",
            "BLOCKSTORE_CACHE_FOLDER": str(folder / "cache"),
        }
        words = [
            sys.executable,
            "-c",
            "from blockstore.cli.main import main; main()",
            "serve",
            lake,
            "--no-auth",
            "--host",
            address[0],
            "--port",
            str(address[1]),
        ]
        with open(self.log, "wb") as out:
            self._process = subprocess.Popen(
                words,
                env={**os.environ, **quick, **environment},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.url = self._wait_for_url()
        trusted = environment.get("BLOCKSTORE_HTTP_TLS_CERT")
        if trusted is not None:
            # What the certificate is for; the process says the address that it listens at.
            self.url = self.url.replace("127.0.0.1", "localhost")
        verify = True if trusted is None else ssl.create_default_context(cafile=trusted)
        self.http = httpx.Client(base_url=self.url, timeout=120, verify=verify)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more, and nothing was tidied up."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def end(self) -> int:
        """SIGTERM; answers the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    @property
    def runs(self) -> bool:
        """Whether it was neither ended nor killed."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def memory_kib(self) -> int:
        """What it and its children hold in memory now, by the kernel's count."""
        total = 0
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                text = status.read_text()
            except OSError:
                continue
            fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            mine = int(status.parent.name) == self.pid or int(fields.get("PPid", "0")) == self.pid
            if mine and "VmRSS" in fields:
                total += int(fields["VmRSS"].split()[0])
        return total

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def _wait_for_url(self) -> str:
        for _ in range(1200):
            found = _SERVING.search(self.log.read_text(errors="replace"))
            if found:
                return found[1]
            if self._process.poll() is not None:
                break
            self._world.clock.sleep(0.1)
        raise AssertionError(
            f"the gateway did not begin to serve: {self.log.read_text(errors='replace')[-2000:]}"
        )


class Peak:
    """The most memory that the gateway took, while the block lasts."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._over = threading.Event()
        self.kib = gateway.memory_kib()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.2):
            self.kib = max(self.kib, self._gateway.memory_kib())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
