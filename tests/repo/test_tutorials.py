"""The tutorials run as they are printed, and their comments are what is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.fenced import ROOT, blocks, commands

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PRINTS = re.compile(r"^ *print\(.*# (.+)$", re.MULTILINE)
INSTALLS = "pip install"


def parts(name: str) -> list[tuple[str, str]]:
    """The language and text of each block, without what installs the package."""
    found = blocks(f"docs/tutorials/{name}.md")
    assert found[0].text.startswith(INSTALLS)
    return [(block.language, block.text) for block in found[1:]]


def run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr[-3000:]}"
    return done.stdout


def test_every_tutorial_begins_with_its_installation_and_takes_five_steps() -> None:
    assert [page.stem for page in TUTORIALS] == ["analyst", "devices", "spark"]
    for page in TUTORIALS:
        text = page.read_text()
        assert parts(page.stem)
        assert re.findall(r"^## (\d)\. ", text, flags=re.MULTILINE) == list("12345"), page
        assert text.rstrip().rpartition("\n\n")[2].startswith("Next: "), page


def test_the_devices_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    """Its Python runs in one process, and its shell commands between."""
    code = "import subprocess\n"
    expected = []
    for language, text in parts("devices"):
        if language == "python":
            code += text
            expected += [said.strip() for said in PRINTS.findall(text)]
            continue
        command = " && ".join(line for line in text.splitlines())
        code += f"subprocess.run({command!r}, shell=True, check=True, stdout=subprocess.DEVNULL)\n"
    assert run([sys.executable, "-c", code], tmp_path).splitlines() == expected


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_spark_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    """Its Python is one job; the compaction follows."""
    found = parts("spark")
    code = "".join(text for language, text in found if language == "python")
    expected = [said.strip() for said in PRINTS.findall(code)]
    assert run([sys.executable, "-c", code], tmp_path).splitlines() == expected
    for block in blocks("docs/tutorials/spark.md")[1:]:
        for command in commands(block) if block.language == "sh" else []:
            run(["bash", "-euc", command], tmp_path)
