"""A bar for each contestant, as SVG that a page can show: the main figure of one result."""

from __future__ import annotations

from html import escape

from bench.case import Case
from bench.result import Result
from bench.table import number

__all__ = ["svg"]

WIDTH, LABEL, BAR, GAP, TOP = 640, 130, 18, 8, 34
OURS, OTHERS, TEXT = "#2f6f4f", "#9aa5ad", "#6b7680"


def svg(case: Case, result: Result) -> str:
    """Bars of the case's first metric, as long as their figures; contestants without one are left
    out."""
    metric = case.metrics[0]
    figures = {
        name: value
        for name in result.contestants
        if (value := result.median(name, metric.name)) is not None
    }
    longest = max(figures.values(), default=1.0) or 1.0
    better = "longer is better" if metric.higher_is_better else "shorter is better"
    title = f"{case.name}: {metric.title}, {metric.unit} ({better})"
    height = TOP + len(figures) * (BAR + GAP)
    room = WIDTH - LABEL - 90
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" fill="{TEXT}" '
            'role="img"'
        ),
        f'  width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<text x="0" y="16" font-weight="bold">{escape(title)}</text>',
    ]
    for position, (name, value) in enumerate(figures.items()):
        top = TOP + position * (BAR + GAP)
        length = max(1, round(room * value / longest))
        color = OURS if name.startswith("ours") else OTHERS
        lines += [
            f'<text x="{LABEL - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{top}" width="{length}" height="{BAR}" rx="2" fill="{color}"/>',
            f'<text x="{LABEL + length + 6}" y="{top + 13}">{number(value, metric.digits)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"
