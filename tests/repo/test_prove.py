"""What scripts/prove takes for a proof: a series that ended well and said what it found."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PROVE = Path(__file__).resolve().parents[2] / "scripts" / "prove"


@pytest.fixture(scope="module")
def prove() -> Iterator[ModuleType]:
    """The script, as a module."""
    loader = importlib.machinery.SourceFileLoader("prove_script", str(PROVE))
    spec = importlib.util.spec_from_loader("prove_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prove_script"] = module  # dataclasses look for it
    loader.exec_module(module)
    yield module
    del sys.modules["prove_script"]


def found(prove: ModuleType, text: str, result: str = r"\d+ passed.*", code: int = 0) -> str | None:
    """What is kept of a series that prints this text and ends with this code."""
    series = prove.Series(
        name="one", what="", every_run="", command=_command(text, code), result=result
    )
    kept = prove._run(series, "here")
    return None if kept is None else str(kept.said)


def _command(text: str, code: int) -> str:
    """A program without a space in it, for a series' command is split at spaces."""
    data = text.encode().hex()
    return f"python -c print(bytes.fromhex('{data}').decode());raise(SystemExit({code}))"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("....\n3 passed in 1.20s\n", "3 passed in 1.20s"),
        (
            "1 passed, 24 deselected in 96.73s (0:01:36)",
            "1 passed, 24 deselected in 96.73s (0:01:36)",
        ),
        ("1 passed in 1s\n2 passed in 2s", "2 passed in 2s"),
    ],
)
def test_the_last_line_that_says_what_was_found_is_kept(
    prove: ModuleType, text: str, said: str
) -> None:
    assert found(prove, text) == said


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("3 passed in 1.20s", 1),
        ("1 skipped in 1.99s", 0),
        ("3 passed, 1 skipped in 1.20s", 0),
        ("3 passed, 1 skipped, 2 deselected in 61.20s (0:01:01)", 0),
        ("nothing of note", 0),
        ("", 0),
    ],
)
def test_a_series_that_failed_skipped_or_said_nothing_is_no_proof(
    prove: ModuleType, text: str, code: int
) -> None:
    assert found(prove, text, code=code) is None


def test_a_series_of_another_kind_may_speak_of_what_it_skipped(prove: ModuleType) -> None:
    said = "5 kills, 2 skipped, 0 violations"
    assert found(prove, said, result=".* violations") == said


def test_all_that_a_series_needs_is_set_up_first(prove: ModuleType) -> None:
    setup = (PROVE.parent / "setup").read_text()
    assert {word for word in prove.NEEDED if word not in setup} == set()
    assert "--engines" in prove.NEEDED
