"""Environments that have the built wheel and what its extras need, and nothing else.

Nothing is downloaded: the packages are those of this interpreter, of which each environment sees
only the ones that pip would install for its extras.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = "blocklake"
ROOT = Path(__file__).parents[2]


def build(folder: Path) -> Path:
    """The wheel, built by the sources' own build backend."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Environment:
    """A Python of its own in ``folder``, with a folder to work in that has nothing of the
    project."""

    folder: Path

    @property
    def site(self) -> Path:
        (site,) = self.folder.glob("venv/lib/python*/site-packages")
        return site

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its processes: none of this process's, except that Java
        starts as in all tests (``tests/support/jvm.py``)."""
        java = {name: os.environ[name] for name in ("JDK_JAVA_OPTIONS",) if name in os.environ}
        return {
            **java,
            "HOME": str(self.folder),
            "PATH": f"{self.folder}/venv/bin:/usr/bin:/bin",
            "TMPDIR": str(self.folder),
        }

    def run(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run one of its programs; ``code`` is the exit code that is expected."""
        done = subprocess.run(
            [self.folder / "venv" / "bin" / words[0], *words[1:]],
            cwd=self.work,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert code is None or done.returncode == code, (words, done.stdout, done.stderr)
        return done

    def python(self, code: str) -> str:
        """What a program prints, run as a file in the working folder, as its author would."""
        (self.work / "program.py").write_text(code)
        return self.run("python", "program.py").stdout

    @property
    def work(self) -> Path:
        (self.folder / "work").mkdir(exist_ok=True)
        return self.folder / "work"


def make(folder: Path, wheel: Path, *extras: str) -> Environment:
    """An environment as ``pip install blocklake[extras]`` makes it."""
    made = Environment(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    python = str(folder / "venv" / "bin" / "python")
    uv = str(Path(sys.executable).parent / "uv")
    _run(uv, "pip", "install", "--offline", "--no-deps", "--python", python, str(wheel))
    for one in closure(PROJECT, frozenset(extras)):
        _lend(one, made.site)
    return made


def closure(project: str, extras: frozenset[str]) -> list[Distribution]:
    """What a project needs with these extras, directly or not, as it is installed here."""
    found: dict[str, Distribution] = {}
    looked_at: set[tuple[str, frozenset[str]]] = set()

    def follow(name: str, wanted: frozenset[str]) -> None:
        if (name, wanted) in looked_at:
            return
        looked_at.add((name, wanted))
        try:
            one = distribution(name)
        except PackageNotFoundError:
            return  # of another platform, or this interpreter has it itself
        if name != project:
            found[one.name.lower()] = one
        for line in one.requires or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in wanted | {""}):
                follow(requirement.name, frozenset(requirement.extras))

    follow(project, extras)
    return list(found.values())


def _lend(one: Distribution, site: Path) -> None:
    for file in one.files or ():
        top = file.parts[0]
        if top in ("..", "__pycache__") or (site / top).exists():
            continue
        (site / top).symlink_to(Path(str(one.locate_file(top))))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
