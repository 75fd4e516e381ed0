"""The README does what it says: its snippets run, its links lead somewhere, its comments are the
answers."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_every_link_leads_to_a_file() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_two_commands_exist() -> None:
    for script in ("scripts/demo", "scripts/test"):
        assert script in README
        assert (ROOT / script).stat().st_mode & 0o111


def test_python_and_sql_snippets_run_and_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    python = next(code for code in snippets("python") if "bs.create" in code)
    expected = [
        line.split("# ")[-1].strip()
        for line in python.splitlines()
        if line.lstrip().startswith("print(")
    ]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(python, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == expected

    binary = Path(sys.executable).parent / "blockstore"
    commands = [
        line
        for code in snippets("sh")
        for line in code.splitlines()
        if line.startswith("blockstore ")
    ]
    assert len(commands) >= 4
    for command in commands:
        done = subprocess.run(
            [binary, *shlex.split(command)[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout.strip(), command


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_spark_snippet_runs(tmp_path: Path) -> None:
    """In a process of its own, as with an activated environment: the snippet makes its own session,
    as its reader would."""
    code = next(code for code in snippets("python") if "SparkSession" in code)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert {"|     a|  1.5|", "|     b|  2.5|"} <= set(done.stdout.splitlines())
