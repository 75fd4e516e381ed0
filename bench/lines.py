"""Lines over the number of files, both axes by powers of ten, as SVG that a page can show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bench.table import number

__all__ = ["Panel", "svg"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 640, 190, 66, 150, 40, 24, 26
_LABEL = 14
_COLORS = ("#2f6f4f", "#b5651d", "#3b6ea5", "#8a4f9e", "#9a8a1f", "#a33b3b")
_TEXT, _GRID = "#6b7680", "#9aa5ad"
_POWERS = {-3: "0.001", -2: "0.01", -1: "0.1", 0: "1", 1: "10", 2: "100", 3: "1,000"}
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture among others below each other."""

    title: str
    lines: Mapping[str, Points]
    """By name: how many files, and the figure; both above zero."""


def svg(title: str, panels: Sequence[Panel]) -> str:
    """The panels, each with a scale of its own for its figures, and all with that of files."""
    counts = [count for panel in panels for line in panel.lines.values() for count, _ in line]
    across = _powers(counts)
    height = len(panels) * (_TOP + _HEIGHT + _BOTTOM + _GAP)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" fill="{_TEXT}" role="img" '
            'font-family="sans-serif" font-size="13">'
        ),
        f"<title>{escape(title)}</title>",
    ]
    for place, panel in enumerate(panels):
        parts += _panel(panel, place * (_TOP + _HEIGHT + _BOTTOM + _GAP), across)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, top: int, across: range) -> list[str]:
    upward = _powers([figure for line in panel.lines.values() for _, figure in line])
    right, base = _WIDTH - _RIGHT, top + _TOP + _HEIGHT

    def x(count: float) -> float:
        return _LEFT + (right - _LEFT) * _share(count, across)

    def y(figure: float) -> float:
        return base - _HEIGHT * _share(figure, upward)

    parts = [f'<text x="0" y="{top + 20}" font-weight="bold">{escape(panel.title)}</text>']
    for power in upward:
        at = y(10.0**power)
        parts += [
            f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="{_GRID}" stroke-opacity="0.4"/>',
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{_power(power)}</text>',
        ]
    for power in across:
        at = x(10.0**power)
        parts += [
            f'<path d="M{at:.1f} {base}V{base + 4}" stroke="{_GRID}"/>',
            f'<text x="{at:.1f}" y="{base + 20}" text-anchor="middle">{_power(power)}</text>',
        ]
    parts.append(_label(right + 26, base + 20, _TEXT, "files"))
    lines = {name: sorted(line) for name, line in panel.lines.items() if line}
    heights = _apart({name: y(line[-1][1]) for name, line in lines.items()}, base)
    for color, (name, line) in zip(_COLORS, lines.items(), strict=False):
        points = " ".join(f"{x(count):.1f},{y(figure):.1f}" for count, figure in line)
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>',
            *(
                f'<circle cx="{x(count):.1f}" cy="{y(figure):.1f}" r="2.5" fill="{color}"/>'
                for count, figure in line
            ),
            _label(right + 10, heights[name] + 4, color, f"{name} {_figure(line[-1][1])}"),
        ]
    return parts


def _label(x: float, y: float, color: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}">{escape(text)}</text>'


def _powers(values: Sequence[float]) -> range:
    """The powers of ten from that below the least to that above the greatest."""
    least = math.floor(math.log10(min(values, default=1.0)))
    greatest = math.ceil(math.log10(max(values, default=1.0)))
    return range(least, max(greatest, least + 1) + 1)


def _share(value: float, powers: range) -> float:
    """How far a value is from the first power to the last."""
    return (math.log10(value) - powers[0]) / (powers[-1] - powers[0])


def _apart(heights: Mapping[str, float], base: float) -> dict[str, float]:
    """The heights of labels that do not cover each other, the lowest first."""
    placed: dict[str, float] = {}
    free = base + _LABEL
    for name, height in sorted(heights.items(), key=lambda each: -each[1]):
        free = placed[name] = min(height, free - _LABEL)
    return placed


def _power(power: int) -> str:
    return _POWERS.get(power, "10" + str(power).translate(_SUPERSCRIPTS))


def _figure(figure: float) -> str:
    return number(figure, 0 if figure >= 100 else 1 if figure >= 10 else 2)
