"""What lies under ``configs/`` for those who run it: rules, units and container files, read for
tests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
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
        (self.health_check,) = re.findall(r"^HEALTHCHECK .*?CMD (.*)$", text, re.MULTILINE)
        """What the shell of the container runs."""
        stops = re.search(r"--stop-timeout (\d+)", text)
        assert stops is not None, "the first lines say how it is run"
        self.stops_within_s = int(stops[1])
        self.runs = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
        copies = re.findall(r"^COPY (.*)$", text, re.MULTILINE)
        self.copied = [word for line in copies for word in line.split()[:-1]]
        (environment,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
        self.environment = dict(
            word.split("=", 1) for word in environment.split() if word.startswith("BLOCKSTORE_")
        )

    def absent(self) -> list[str]:
        """What it copies and is not there."""
        return [word for word in self.copied if not (ROOT / word).exists()]

    def install(self, folder: Path) -> Path:
        """What its RUN lines of Python make, of the files that it copies and of nothing else;
        answers the environment's folder.

        Offline: what this interpreter has is what the registry would have. Other RUN lines are the
        system's and are left out.
        """
        source, made = folder / "src", folder / "made"
        source.mkdir()
        for word in self.copied:
            if word.startswith("configs/"):
                continue
            whole = ROOT / word
            (shutil.copytree if whole.is_dir() else shutil.copyfile)(whole, source / word)
        for line in self.runs:
            words = [word.replace("/opt/blockstore", str(made)) for word in shlex.split(line)]
            if words[0] == "python":
                _run([sys.executable, *words[1:]], source)
                _lend_packages(made, folder / "lent")
            elif words[0] == f"{made}/bin/pip":
                _run([*words, "--no-index", "--no-build-isolation"], source)
        return made

    def is_healthy(self, url: str) -> bool:
        """What its HEALTHCHECK says of a process that serves there."""
        port = url.rpartition(":")[2]
        command = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", self.health_check)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        asked = subprocess.run(
            ["/bin/sh", "-c", command],
            env={**os.environ, "PATH": path},
            capture_output=True,
            check=False,
        )
        return asked.returncode == 0


def _lend_packages(made: Path, lent: Path) -> None:
    """Let a fresh environment see the packages of this one, but not the project itself."""
    lent.mkdir()
    for package in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "blocklake" not in package.name and package.suffix != ".pth":
            (lent / package.name).symlink_to(package)
    (site,) = made.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(f"{lent}\n")


def _run(words: list[str], folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
