"""The page about running it: its drill runs as it stands, and it names every check of verify."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from blockstore.care.finding import Check
from blockstore.cli.main import run

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "operations.md").read_text()
FAILS = "# exits 1"


def drill() -> list[str]:
    (script,) = re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    return [line for line in script.splitlines() if line and not line.startswith("#")]


def test_every_check_of_verify_has_a_row() -> None:
    rows = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| "))
    assert [str(check) for check in Check if str(check) not in rows] == []


def test_the_drill_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our own command in this process, everything else by the shell."""
    monkeypatch.chdir(tmp_path)
    lines = drill()
    assert len(lines) > 25
    counts = []
    for line in lines:
        command = line.partition(FAILS)[0].strip()
        picked = re.fullmatch(r"(\w+)=\$\((blockstore .*) \| head -1\)", command)
        ours = picked[2] if picked else command
        if not ours.startswith("blockstore "):
            subprocess.run(["bash", "-euc", command], check=True)
            continue
        words = [os.path.expandvars(word) for word in shlex.split(ours)[1:]]
        code = run(words)
        out, err = capsys.readouterr()
        assert code == (1 if FAILS in line else 0), f"{line}\n{out}{err}"
        if picked:
            monkeypatch.setenv(picked[1], out.splitlines()[0])
        counts += re.findall(r"^ *(\d+) *$", out, flags=re.MULTILINE)
    assert counts == ["3", "3"]
