"""The runner itself: what is wrong with a model it sees, and says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.specs.runner import load_runner, needs_spin

runner = load_runner()

TEXT = """
hidden byte stays_small;
hidden byte never_asked;
byte count;
active proctype Counter() {
end:
  do
  :: atomic { count < LIMIT -> count++; assert(count <= 5 || stays_small) }
  :: atomic { count > 0 -> count = 0 }
  :: atomic { count > 100 -> count = 1 }
  od
}
"""

TABLE = """
[toy]
about = "a counter"
[toy.small]
five = "-DLIMIT=5"
[toy.full]
five = "-DLIMIT=5"
[toy.broken]
SIX = { bounds = "five", breaks = "stays_small", what = "counts to six" }
"""

UNREACHED = """
[[toy.unreached]]
where = "Counter toy.pml"
text = "count = #"
reason = "nothing counts to a hundred"
[[toy.unreached]]
where = "Counter toy.pml"
text = "count>#"
reason = "nothing counts to a hundred"
"""


def run(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    text: str = TEXT,
    table: str = TABLE + UNREACHED,
) -> tuple[int, str]:
    (folder / "toy.pml").write_text(text)
    (folder / "models.toml").write_text(table)
    code = runner.main(["--specs", str(folder), "-j", "1"])
    return code, capsys.readouterr().out


BROKEN = TEXT.replace("count < LIMIT", "count < LIMIT + SIX").replace(
    "hidden byte stays",
    "#ifdef BROKEN_SIX\n#define SIX 1\n#else\n#define SIX 0\n#endif\nhidden byte stays",
)


@needs_spin
def test_a_model_that_holds_and_a_variant_that_is_caught_are_no_surprise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(tmp_path, capsys, BROKEN)
    assert code == 0
    last = printed.splitlines()[-1]
    assert re.fullmatch(r"models: 1 checked, [1-9]\d* states, 1 broken variants caught", last)


@needs_spin
def test_a_variant_that_does_not_fail_is_a_surprise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(tmp_path, capsys, TEXT)
    assert code == 1
    assert "expected: stays_small fails" in printed
    last = printed.splitlines()[-1]
    assert re.fullmatch(r"models: 1 checked, [1-9]\d* states, 0 broken variants caught", last)


@needs_spin
def test_a_variant_that_breaks_another_invariant_is_a_surprise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(tmp_path, capsys, BROKEN.replace("|| stays_small", "|| never_asked"))
    assert code == 1
    assert "never_asked fails" in printed


@needs_spin
def test_a_correct_model_that_fails_is_a_surprise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(tmp_path, capsys, BROKEN.replace("count <= 5", "count <= 4"))
    assert code == 1
    assert "expected: holds" in printed


@needs_spin
def test_a_process_that_gets_stuck_is_a_surprise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(
        tmp_path,
        capsys,
        BROKEN.replace("count > 0 -> count = 0", "count > 5 -> count = 0").replace("end:", ""),
    )
    assert code == 1
    assert "a process gets stuck" in printed


@needs_spin
def test_a_statement_that_no_bounds_reach_is_named_unless_it_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = run(tmp_path, capsys, BROKEN, TABLE)
    assert code == 1
    assert "never reached: Counter toy.pml:" in printed


@needs_spin
def test_a_search_that_was_cut_short_does_not_count_as_one_that_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DEPTH", 3)
    code, printed = run(tmp_path, capsys, BROKEN)
    assert code == 1
    assert "truncated: too deep" in printed


@needs_spin
def test_a_model_that_spin_does_not_accept_is_told_with_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        SystemExit, match=r"spin does not accept toy\.pml with -DLIMIT=5: .*syntax error"
    ):
        run(tmp_path, capsys, TEXT.replace("od", "do do"))


@needs_spin
def test_a_name_that_nothing_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SystemExit, match="there is no 'comit', expected one of commit, "):
        runner.main(["comit"])
