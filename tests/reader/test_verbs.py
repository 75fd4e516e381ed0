"""The reader's verb is light: the overview loads its module, and that loads no engine."""

from __future__ import annotations

import subprocess
import sys

import reader.verbs


def test_the_verbs_module_loads_no_engine() -> None:
    code = "import sys, reader.verbs; print([name for name in ('duckdb', 'pyarrow', 'pandas') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_verb_has_a_sentence_and_needs_no_pandas() -> None:
    assert (reader.verbs.query.__doc__ or "").startswith("Answer SQL over snapshots of tables.")
    assert "query" in reader.verbs.LEAN
