"""The repository about itself: sizes, names, layout, and what must not be said."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("blockstore", "compactor", "reader", "spark")
LONG_FILES: dict[str, str] = {}
"""Files that may have more than 450 lines, each with its reason."""


def product_files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_the_top_level_folders_are_those_of_the_architecture() -> None:
    for folder in (
        "blockstore",
        "compactor",
        "reader",
        "spark",
        "tests",
        "configs",
        "docs",
        "scripts",
        "bench",
    ):
        assert (ROOT / folder).is_dir(), folder


def test_no_file_outgrows_one_concept() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in product_files()
        if (lines := len(path.read_text().splitlines())) > 450
    }
    assert {name: lines for name, lines in long.items() if name not in LONG_FILES} == {}


def test_the_repository_stays_small() -> None:
    """What a script can make again is made again, not kept: benchmark data, bundles' source maps,
    traces."""
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in tracked_files()}
    assert {name: size for name, size in sizes.items() if size > 1_500_000} == {}
    assert sum(sizes.values()) < 30_000_000


def test_no_file_holds_the_marks_of_a_merge() -> None:
    marks = re.compile(rb"^(?:<{7} |>{7} |={7}$)", flags=re.MULTILINE)
    held = [
        str(path.relative_to(ROOT)) for path in tracked_files() if marks.search(path.read_bytes())
    ]
    assert held == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    nothing = {"utils.py", "util.py", "common.py", "helpers.py", "core.py", "manager.py", "misc.py"}
    assert [str(path) for path in product_files() if path.name in nothing] == []


def test_every_module_says_what_it_owns() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in product_files()
        if path.read_text().strip() and not path.read_text().lstrip().startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_object_names_are_formatted_in_one_module() -> None:
    """Nothing but names.py (and prose) writes the name of an object of the format."""
    literal = re.compile(
        r"""["'](?:[^"'\n]*/)?(meta\.json|deletion-mark\.json|no-compact-mark\.json|index\.boundary|hint\.json)["']"""
    )
    offenders = []
    for path in product_files():
        if path.name == "names.py":
            continue
        code = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text())
        offenders += [f"{path.relative_to(ROOT)}: {match[0]}" for match in literal.finditer(code)]
    assert offenders == []


def test_nothing_unfinished_is_called_done() -> None:
    unfinished = re.compile(r"TODO|FIXME|XXX|\bNotImplementedError|pragma: no cover")
    here = Path(__file__)
    offenders = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        if path.suffix == ".py" and path != here
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if unfinished.search(line)
    ]
    assert offenders == []


def test_no_path_of_the_machine_that_built_it_is_in_the_tree() -> None:
    machine = re.compile("/" + r"(?:work|farm|root)/[a-z.]|" + "/bash" + "_jobs")
    offenders = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.suffix in {".py", ".md", ".toml", ".json", ".txt", ""}
        and machine.search(path.read_text(errors="ignore"))
    ]
    assert offenders == []


@pytest.mark.parametrize("lock", ["requirements.lock", "bench/requirements.lock"])
def test_lock_files_pin_with_hashes_and_name_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text
    pins = [line for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
    assert pins
    assert [line for line in pins if "==" not in line] == []
