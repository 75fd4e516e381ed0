"""What lies under ``configs/`` for those who run it: rules, units and container files, read for tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

__all__ = ["ROOT", "Image", "Unit", "missing_metrics", "named_metrics"]

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"


def named_metrics(process: str) -> set[str]:
    """The metrics that the alerts on a process name, as Prometheus stores them."""
    document = yaml.safe_load((CONFIGS / "prometheus" / f"{process}.rules.yml").read_text())
    expressions = [str(rule["expr"]) for group in document["groups"] for rule in group["rules"]]
    return {name for one in expressions for name in re.findall(r"blockstore_\w+", one)}


def missing_metrics(process: str, exported: str) -> list[str]:
    """Those of them that are not in what the process exports."""
    return [
        name
        for name in sorted(named_metrics(process))
        if not re.search(rf"^{name}(?:\{{| )", exported, re.MULTILINE)
    ]


class Unit:
    """The systemd unit of a process."""

    def __init__(self, process: str) -> None:
        text = (CONFIGS / "systemd" / f"blockstore-{process}.service").read_text()
        self._lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        (command,) = self._values("ExecStart")
        self.command = shlex.split(command)
        self.environment = dict(value.split("=", 1) for value in self._values("Environment"))
        (stop,) = self._values("TimeoutStopSec")
        self.stops_within_s = int(stop.removesuffix("s"))

    def _values(self, key: str) -> list[str]:
        return [line.removeprefix(f"{key}=") for line in self._lines if line.startswith(f"{key}=")]


class Image:
    """The container file of a process."""

    def __init__(self, process: str) -> None:
        text = (CONFIGS / "docker" / f"{process}.Dockerfile").read_text().replace("\\\n", " ")
        copies = re.findall(r"^COPY (.*)$", text, re.MULTILINE)
        self.copied = [word for line in copies for word in line.split()[:-1]]
        (environment,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
        self.environment = dict(
            word.split("=", 1) for word in environment.split() if word.startswith("BLOCKSTORE_")
        )

    def absent(self) -> list[str]:
        """What it copies and is not there."""
        return [word for word in self.copied if not (ROOT / word).exists()]
