"""``blockstore demo``: make a small lake with commands that are shown before they run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from blockstore.cli.output import say
from blockstore.errors import Invalid

_DAYS = ("2026-03-01", "2026-03-02", "2026-03-03")
_STATIONS = (("harbour", 9.0), ("airport", 7.5), ("summit", -4.0))
_COLUMNS = "time:timestamp[s, UTC]!, station:string!, celsius:double"
_AVERAGES = (
    "select station, count(*) as readings, round(avg(celsius), 2) as average "
    "from readings group by station order by station"
)


def demo(folder: str = "blockstore-demo", /) -> int:
    """Make a small lake to try, and show what a table can do.

    Each command is printed before it runs: create, write, query, merge, delete, and a query of an
    earlier version.

    Parameters
    ----------
    folder
        A folder that does not exist yet, or is empty.
    """
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise Invalid(
            f"{folder} exists and is not an empty folder: name another folder, or remove it"
        )
    files = _write_files(root / "files")
    table = str(root / "lake" / "readings")
    for about, words in _steps(table, files):
        code = _shown(about, words)
        if code:
            return code
    lake = shlex.quote(str(root / "lake"))
    say(f"\nThe lake stays in {root}. To see it in a browser: blockstore serve {lake} --no-auth")
    return 0


def _steps(table: str, files: Sequence[Path]) -> Iterator[tuple[str, list[str]]]:
    """Yield a sentence about each command, and its words."""
    words = ["--schema", _COLUMNS, "--time-column", "time", "--sort-by", "station,time"]
    yield (
        "A table with its columns, its time column and the order of its rows.",
        [
            *("create", table),
            *words,
        ],
    )
    for at, file in enumerate(files):
        about = "Each write adds one block: all of its rows become visible at once, or none."
        yield about if at == 0 else "", ["write", table, str(file)]
    yield "The blocks, and the versions that the writes made.", ["ls", table]
    yield "", ["history", table]
    queries = find_spec("duckdb") is not None
    if queries:
        yield "SQL reads an exact snapshot.", ["query", table, _AVERAGES]
    yield (
        "The compactor merges small blocks into large ones.",
        [
            *("compact", table, "--once"),
        ],
    )
    if queries:
        yield "The rows are the same.", ["query", table, _AVERAGES]
    yield (
        "A delete is a new version.",
        [
            *("delete", table, "--where", "station = 'summit'"),
        ],
    )
    if queries:
        yield "", ["query", table, _AVERAGES]
        before = str(1 + len(files))
        yield (
            f"Version {before} still has all rows: SQL reads any version that is kept.",
            ["query", table, "--version", before, _AVERAGES],
        )
    yield "Every version says what changed.", ["history", table]
    yield "Each byte can be checked.", ["verify", table, "--deep"]
    if not queries:
        say("SQL needs duckdb, which is not installed: run pip install 'blocklake[reader]'\n")


def _shown(about: str, words: list[str]) -> int:
    from blockstore.cli.main import run

    if about:
        say(f"\n{about}")
    say(f"$ blockstore {' '.join(map(_quoted, words))}")
    return run(words)


def _quoted(word: str) -> str:
    """Quote a word as a person would type it: SQL contains single quotes."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def _write_files(folder: Path) -> list[Path]:
    """Write a CSV file for each day, with values from a formula, the same on every machine."""
    folder.mkdir(parents=True)
    return [_write_day(folder / f"{day}.csv", day, at) for at, day in enumerate(_DAYS)]


def _write_day(path: Path, day: str, at: int) -> Path:
    rows = [
        f"{day}T{hour:02}:00:00Z,{station},{mean + at / 2 + _swing(hour):.1f}"
        for station, mean in _STATIONS
        for hour in range(24)
    ]
    path.write_text("\n".join(["time,station,celsius", *rows]) + "\n")
    return path


def _swing(hour: int) -> float:
    """Return how much warmer an hour is than the day's mean: coldest at 3, warmest at 15."""
    return 4 * math.sin((hour - 9) * math.pi / 12)
