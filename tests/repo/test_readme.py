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


_BENCHES = {
    "commits of 1,000 rows, one writer": "append",
    "commits, 16 writers at once (refused)": "append16",
    "poll a table, nothing new": "poll",
    "open a table of 1,000 blocks": "open-1k",
    "1,000 neighbouring rows of 10 M": "point",
    "group by over 10 M rows": "groupby",
    "merge 100 blocks of 200,000 rows": "merge_wide",
    "update 10,000 scattered rows of 5 M by key": "rows_update",
    "MERGE of 1 M rows into 10 M by key, in SQL": "rows_merge",
    "merge 1,000 blocks of 1,000 rows": "merge_small",
}
_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")


def _figures(text: str) -> list[str]:
    return [one.replace(",", "") for one in _FIGURE.findall(text)]


@pytest.mark.parametrize("row", _BENCHES)
def test_each_figure_is_one_of_its_bench(row: str) -> None:
    line = next(line for line in README.splitlines() if line.startswith(f"| {row} |"))
    page = (ROOT / "docs/benchmarks.md").read_text()
    section = page.split(f"\n## {_BENCHES[row]}\n")[1].split("\n## ")[0]
    measured = [float(one) for one in _figures(section)]
    said = _figures("|".join(line.split("|")[2:]))
    assert said
    for one in said:
        digits = len(one.partition(".")[2])
        assert any(f"{value:.{digits}f}" == one for value in measured), one
