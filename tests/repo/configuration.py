"""Writes ``configs/*.toml`` and ``docs/configuration.md`` from the declarations; ``--check`` names
what is stale.

python -m tests.repo.configuration [--check]
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from blockstore.service.config import ConfigFile
from tests.repo.config_text import page, toml_file

ROOT = Path(__file__).parent.parent.parent
DECLARED = ("blockstore.compactor.config", "blockstore.reader.settings")
"""The modules whose ``FILE`` declares a process's configuration."""
PAGE = ROOT / "docs" / "configuration.md"
ABOUT = (
    "Every key of every process, its default and the environment variable that overrides it. "
    "`scripts/configuration` writes this page and the files under `configs/` from the program's "
    "own declarations, and a test fails when they are stale. Durations are written as 15m or "
    "48h, sizes as 512MiB or 64GiB; a list in the environment is separated by commas. An unknown "
    "key is refused with the nearest known one, and all problems of a file are reported at once. "
    "Secrets are never in the file: they come from the environment, or from a file that the key "
    "names."
)


def declared() -> list[ConfigFile]:
    return [import_module(name).FILE for name in DECLARED if find_spec(name) is not None]


def expected() -> dict[Path, str]:
    """What each file must hold."""
    files = declared()
    found = {ROOT / "configs" / file.name: toml_file(file) for file in files}
    return found | {PAGE: page("Configuration", ABOUT, files)}


def stale() -> list[Path]:
    return [
        path for path, text in expected().items() if not path.exists() or path.read_text() != text
    ]


def main(arguments: list[str]) -> int:
    old = stale()
    for path in old:
        print(f"{'stale' if arguments else 'written'}: {path.relative_to(ROOT)}")
        if not arguments:
            path.write_text(expected()[path])
    return 1 if arguments and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
