"""The vendored libraries are what scripts/assets wrote: pinned, licensed, small, and not touched
since."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from blockstore.service.pages.responses import STATIC

ROOT = Path(__file__).parents[4]
VENDOR = STATIC / "vendor"
MANIFEST = json.loads((VENDOR / "manifest.json").read_text())


def test_the_manifest_names_every_file_with_its_hash() -> None:
    held = {path.name for path in VENDOR.iterdir()} - {"manifest.json"}
    assert held == set(MANIFEST["files"])
    for name, expected in MANIFEST["files"].items():
        data = (VENDOR / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (
            expected["bytes"],
            expected["sha256"],
        ), name


@pytest.mark.parametrize("name", sorted(MANIFEST["files"]))
def test_a_bundle_is_small_has_no_source_map_and_is_a_module(name: str) -> None:
    text = (VENDOR / name).read_text()
    assert len(text) < 600_000
    assert "sourceMappingURL" not in text
    if name.endswith(".js"):
        assert re.search(r"export\s*\{", text)
        assert not re.search(r"\beval\(|new Function\(", text)


def test_every_package_is_pinned_and_its_licence_is_there() -> None:
    licences = (VENDOR / "LICENSES.txt").read_text()
    lock = json.loads((ROOT / "scripts/frontend/package-lock.json").read_text())["packages"]
    assert len(MANIFEST["packages"]) > 10
    for name, told in MANIFEST["packages"].items():
        version, licence = told.split(" ", 1)
        assert lock[f"node_modules/{name}"]["version"] == version
        assert lock[f"node_modules/{name}"]["integrity"].startswith("sha512-")
        assert licence in ("(MIT)", "(BSD-3-Clause)", "(Apache-2.0)", "(ISC)")
        assert f"{name} {told}" in licences


def test_the_lock_file_names_no_host_to_load_from() -> None:
    lock = json.loads((ROOT / "scripts/frontend/package-lock.json").read_text())["packages"]
    assert [name for name, package in lock.items() if "resolved" in package] == []


def test_the_wheel_holds_the_pages(tmp_path: Path) -> None:
    made = run([executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    assert made.returncode == 0, made.stderr
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    pages = [(STATIC, "blockstore/service/pages/static")]
    pages += [(ROOT / room / "static", f"blockstore/{room}/static") for room in ("compactor/web", "reader/page")]  # fmt: skip
    for folder, packed in pages:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                assert f"{packed}/{path.relative_to(folder)}" in names
