"""A year of daily updates as values, as a picture and as a section of ``docs/benchmarks.md``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

from bench.table import number

__all__ = ["NAME", "Day", "Size", "Year", "section", "svg"]

NAME = "rows-year"
"""The picture and the figures have this name, without their ending."""

_PANELS = (
    ("query_cpu_ms", "group-by over all rows, ms of the processors", 0),
    ("amplification", "rows read for each row that is seen", 1),
    ("stored_mib", "stored, MiB", 0),
    ("written_mib", "written by the compactor, MiB a day", 0),
)
"""Figures with their titles, and what the line at the bottom means."""
_WIDTH, _HEIGHT, _LEFT, _GAP = 640, 90, 60, 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The table at the end of a day, its merges done."""

    day: int
    blocks: int
    live_mib: float
    stored_mib: float
    """With blocks that wait for their removal, and the index."""
    index_mib: float
    objects: int
    """In the bucket."""
    written_mib: float
    """By the compactor, this day."""
    amplification: float | None
    """Rows read for each that is seen; None on days on which no query ran."""
    upsert_ms: float
    query_ms: float | None
    """A group-by over all rows, warm; the least of three."""
    query_cpu_ms: float | None
    """What it takes of the processors, which other work on the machine changes less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What is simulated."""

    rows: int = 5_000_000
    changes: int = 10_000
    days: int = 365
    query_every: int = 5
    """Days from one query to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Year:
    """What was simulated, and what was found, from day 0 on."""

    date: str
    """When it ran."""
    size: Size
    days: tuple[Day, ...]

    @classmethod
    def load(cls, path: Path) -> Year:
        """Read what ``save`` wrote."""
        fields = json.loads(path.read_text())
        return cls(
            date=fields["date"],
            size=Size(**fields["size"]),
            days=tuple(Day(**day) for day in fields["days"]),
        )

    def save(self, path: Path) -> None:
        """Write it, a line for each day."""
        days = ",\n".join(f"  {json.dumps(asdict(day))}" for day in self.days)
        head = f'{{\n "date": "{self.date}",\n "size": {json.dumps(asdict(self.size))},\n'
        path.write_text(f'{head} "days": [\n{days}\n ]\n}}\n')


def section(year: Year) -> str:
    """What the page says of a year."""
    size, days = year.size, year.days
    figures: list[tuple[str, str, Sequence[float], int]] = [
        ("blocks", "", [day.blocks for day in days], 0),
        ("live", " MiB", [day.live_mib for day in days], 1),
        ("stored, with what waits for its removal", " MiB", [day.stored_mib for day in days], 1),
        ("… of it the index", " MiB", [day.index_mib for day in days], 2),
        ("objects", "", [day.objects for day in days], 0),
        ("rows read for each that is seen", "", _known(day.amplification for day in days), 3),
        ("update", " ms", [day.upsert_ms for day in days[1:]], 0),
        (
            "group-by over all rows, of the processors",
            " ms",
            _known(day.query_cpu_ms for day in days),
            0,
        ),
    ]
    rows = [
        f"| {title} | "
        + " | ".join(
            f"{number(figure, digits)}{unit}"
            for figure in (found[0], statistics.median(found), max(found), found[-1])
        )
        + " |"
        for title, unit, found, digits in figures
    ]
    written = sum(day.written_mib for day in days[1:])
    about = (
        f"A table of {size.rows:,} rows with a key, of which {size.changes:,} scattered ones are "
        f"replaced each day for {size.days} days; at the end of each day the compactor merges, and "
        f"cleans. The clock is simulated, the work is not (`python -m bench.rows_year`, "
        f"{year.date}). The compactor wrote {number(written, 0)} MiB in all, "
        f"{number(written / size.days, 2)} MiB a day: the plain rows are rewritten when more than "
        "a tenth of them is hidden, and until then changes merge among themselves. A query reads "
        "the keys of both, to leave out what is hidden. The first rows, with consecutive ids, take "
        "little more than their values; rows that came one by one take about 5 bytes, a third of "
        "it for their versions. So what is live grows until all rows have been replaced once."
    )
    head = ["| at the end of a day | first | median | most | last |"]
    head += ["| --- | ---: | ---: | ---: | ---: |"]
    picture = f"![A year of daily updates](benchmarks/{NAME}.svg)"
    return "\n".join(["## A year of daily updates\n", about, "", *head, *rows, "", picture])


def _known(figures: Iterable[float | None]) -> list[float]:
    return [figure for figure in figures if figure is not None]


def svg(days: Sequence[Day]) -> str:
    """A line for each figure, over the days."""
    height = len(_PANELS) * (_HEIGHT + _GAP) + 24
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" fill="#6b7680" role="img" '
            'font-family="sans-serif" font-size="13">'
        ),
        "<title>A year of daily updates</title>",
    ]
    for place, (name, title, least) in enumerate(_PANELS):
        found = [(day.day, getattr(day, name)) for day in days if getattr(day, name) is not None]
        lines += _panel(place * (_HEIGHT + _GAP) + 22, title, least, found, days[-1].day)
    x = _WIDTH - 10
    lines += [
        f'<text x="{_LEFT}" y="{height - 8}">day 0</text>',
        f'<text x="{x}" y="{height - 8}" text-anchor="end">day {days[-1].day}</text>',
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(
    top: int, title: str, least: float, found: Sequence[tuple[int, float]], last: int
) -> list[str]:
    """One figure by day: the line at the bottom is ``least``, and its most is at the top."""
    most, base = max(figure for _, figure in found), top + _HEIGHT
    across, up = (_WIDTH - _LEFT - 10) / max(1, last), _HEIGHT / ((most - least) or 1.0)
    points = " ".join(
        f"{_LEFT + day * across:.1f},{base - (figure - least) * up:.1f}" for day, figure in found
    )
    return [
        f'<text x="0" y="{top - 8}" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most:g}</text>',
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">{least:g}</text>',
        f'<path d="M{_LEFT} {base}H{_WIDTH - 10}" stroke="#9aa5ad"/>',
        f'<polyline points="{points}" fill="none" stroke="#2f6f4f" stroke-width="1.5"/>',
    ]
