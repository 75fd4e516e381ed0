"""Tables at a terminal: nothing is cut, nothing is left out, nothing steers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.cli.layout import layout
from blockstore.cli.printable import line, printable, printable_cell
from tests.blockstore.cli.conftest import Command
from tests.blockstore.cli.terminal import at_terminal


def test_texts_give_way_the_widest_first_and_numbers_never() -> None:
    roomy = layout([10, 20], [10, 5], None)
    assert roomy is not None
    assert (roomy.widths, roomy.gap, roomy.total) == ((10, 20), 3, 33)
    tight = layout([10, 20], [10, 5], 32)
    assert tight is not None
    assert (tight.widths, tight.gap) == ((10, 20), 2)
    shared = layout([10, 40, 8, 60], [10, 5, 5, 5], 80)
    assert shared is not None
    assert shared.widths == (10, 28, 8, 28)
    assert shared.total == 80
    least = layout([10, 20], [10, 5], 17)
    assert least is not None
    assert least.widths == (10, 5)
    assert layout([10, 20], [10, 5], 16) is None


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_no_terminal_is_too_narrow_for_a_value(
    flights: str, columns: int, blockstore: Command
) -> None:
    blocks = blockstore("inspect", flights, "--json").json
    shown = at_terminal(columns, "inspect", flights)
    for block in blocks:
        assert block["ulid"] in shown
        assert f"day={block['labels']['day']}" in shown
    assert shown.count("ready") == shown.count("itself") == 3
    grid = shown.splitlines()[0].startswith("BLOCK ") and "SOURCE" in shown.splitlines()[0]
    assert grid == (columns >= 100)
    if grid:
        assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.parametrize("columns", [50, 80])
def test_numbers_of_an_answer_are_whole_at_any_width(flights: str, columns: int) -> None:
    numbers = [12_345_678_901_234_567 * (place + 1) for place in range(4)]
    sql = ", ".join(f"{number} as number_{place}" for place, number in enumerate(numbers))
    shown = at_terminal(
        columns, "query", flights, f"select {sql}, repeat('word ', 20) as text from flights limit 1"
    )
    assert all(str(number) in shown for number in numbers)
    assert "".join(shown.split()).count("word") == 20


def test_data_never_steers_a_terminal(flights: str) -> None:
    sql = (
        "select 'a' || chr(27) || ']0;x' || chr(7) || chr(10) || chr(8238) as \"t\x1b[2J\" from "
        "flights limit 1"
    )
    shown = at_terminal(80, "query", flights, sql)
    assert r"a\x1b]0;x\x07\n\u202e" in shown
    assert r"t\x1b[2J" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_sentences_hold_nothing_that_steers(
    blockstore: Command, flights: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("origin,time_hour,delay,fare\nJFK,2013-01-01,\x1b[2Jx,1.0\n")
    told = blockstore("write", flights, str(bad), code=1).err
    assert "\x1b" not in told
    assert r"\x1b[2Jx" in told
    assert printable("a\tb\nc\x9b") == "a\tb\nc\\x9b"
    assert printable_cell("a\tb\nc\r") == r"a\tb\nc\r"
    assert line("a\n  b\x00") == r"a b\x00"


def test_history_names_its_tags(blockstore: Command, flights: str) -> None:
    blockstore("tag", flights, "first", "--version", "2")
    blockstore("untag", flights, "first")
    told = blockstore("history", flights).out
    assert "tag 'first' for version 2" in told
    assert "tag 'first' removed" in told
    assert [
        entry["tags"] for entry in blockstore("history", flights, "--json", "-n", "2").json
    ] == [
        {"first": 2},
        {"first": None},
    ]


@pytest.mark.parametrize("text", ["{ulid:>99999999999}", "{ulid:{rows}}", "{rows:010000}"])
def test_a_template_fills_no_memory(blockstore: Command, flights: str, text: str) -> None:
    assert (
        "expected a width of at most 9999"
        in blockstore("inspect", flights, "--template", text, code=2).err
    )
