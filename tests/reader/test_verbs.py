"""The reader's verb is light: the overview loads its module, and that loads no engine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import reader.verbs
from blockstore.cli.failure import Usage


def test_the_verbs_module_loads_no_engine() -> None:
    code = "import sys, reader.verbs; print([name for name in ('duckdb', 'pyarrow', 'pandas') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_verb_has_a_sentence_and_needs_no_pandas() -> None:
    assert (reader.verbs.query.__doc__ or "").startswith("Answer SQL over snapshots of tables.")
    assert "query" in reader.verbs.LEAN


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"version": 1, "tag": "a"}, "--version and --tag were given"),
        ({"as_of": "2024-01-01", "tag": "a"}, "--as-of and --tag were given"),
    ],
)
def test_one_version_is_asked_for(options: dict[str, Any], says: str) -> None:
    with pytest.raises(Usage, match=says):
        reader.verbs.query("lake/t", "select 1", **options)


@pytest.mark.parametrize("options", [{"version": 1}, {"tag": "a"}])
def test_a_version_is_of_one_table(options: dict[str, Any]) -> None:
    with pytest.raises(Usage, match="is of one table"):
        reader.verbs.query("lake/t", "lake/u", "select 1", **options)
