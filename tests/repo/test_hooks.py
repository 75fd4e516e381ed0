"""The hooks that run before a commit: they download nothing, and what they call is there."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent.parent


def test_every_hook_is_local_and_calls_what_scripts_setup_installs() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        program, *words = hook["entry"].split()
        assert hook["language"] == "system", hook["id"]
        assert program.startswith(".venv/bin/"), hook["id"]
        assert (ROOT / program).exists(), hook["id"]
        files = [word for word in words if word.startswith("tests/")]
        assert [file for file in files if not (ROOT / file).exists()] == []
