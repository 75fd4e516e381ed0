"""The requests of one operation over time, as SVG that a page can show: a bar for each."""

from __future__ import annotations

import re
from html import escape
from urllib.parse import unquote, urlsplit

from bench.latency.prices import Kind, kind
from bench.latency.record import Exchange, Record

__all__ = ["svg"]

WIDTH, LABEL, BAR, GAP, TOP, RIGHT = 860, 330, 9, 3, 44, 60
ROWS = 48
"""More requests are counted, not drawn."""
COLORS = {Kind.READ: "#2f6f4f", Kind.WRITE: "#b4632d", Kind.FREE: "#9aa5ad"}
TEXT, GRID = "#6b7680", "#d5dadd"
_LONG = re.compile(r"[0-9A-Za-z]{20,}")


def svg(title: str, record: Record, ms: float) -> str:
    """Bars from each request's begin to its end, on a scale that begins with the operation: what is
    left of the first bar, and between bars, is the client's own time."""
    exchanges = record.exchanges
    shown, hidden = exchanges[:ROWS], exchanges[ROWS:]
    whole = max([ms, *(each.end * 1_000 for each in exchanges)]) or 1.0
    height = TOP + (len(shown) + bool(hidden)) * (BAR + GAP) + 24
    head = (
        f"{title}: {ms:,.0f} ms, {record.requests} requests, {record.depth} deep, "
        f"{_size(record.down)} received"
    )
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" fill="{TEXT}" '
            'role="img"'
        ),
        f'  width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="9">',
        f"<title>{escape(head)}</title>",
        f'<text x="0" y="16" font-size="13" font-weight="bold">{escape(head)}</text>',
        *_grid(whole, height),
    ]
    for row, exchange in enumerate(shown):
        lines += _bar(exchange, TOP + row * (BAR + GAP), whole)
    if hidden:
        top = TOP + len(shown) * (BAR + GAP) + BAR
        lines.append(f'<text x="{LABEL - 6}" y="{top}" text-anchor="end">{len(hidden)} more</text>')
    return "\n".join([*lines, "</svg>", ""])


def _grid(whole: float, height: int) -> list[str]:
    step = next(
        each for each in (5, 10, 25, 50, 100, 250, 500, 1_000, 10_000, 60_000) if whole / each <= 10
    )
    lines = []
    for mark in range(0, int(whole) + 1, step):
        x = _x(mark, whole)
        lines += [
            f'<line x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{height - 16}" stroke="{GRID}"/>',
            f'<text x="{x}" y="{TOP - 10}" text-anchor="middle">{mark} ms</text>',
        ]
    return lines


def _bar(exchange: Exchange, top: int, whole: float) -> list[str]:
    begin, end = (_x(at * 1_000, whole) for at in (exchange.begin, exchange.end))
    color = COLORS[kind(exchange.method, exchange.target)]
    label = escape(f"{exchange.method} {_short(exchange.target)} {exchange.status}")
    return [
        f'<text x="{LABEL - 6}" y="{top + BAR - 1}" text-anchor="end">{label}</text>',
        (
            f'<rect x="{begin}" y="{top}" width="{max(1.0, round(end - begin, 1))}" '
            f'height="{BAR}" fill="{color}"/>'
        ),
        f'<text x="{end + 3}" y="{top + BAR - 1}">{_size(exchange.up + exchange.down)}</text>',
    ]


def _x(ms: float, whole: float) -> float:
    return round(LABEL + (WIDTH - LABEL - RIGHT) * ms / whole, 1)


def _short(target: str) -> str:
    """The key within the table, or the prefix that is listed; long names are cut."""
    url = urlsplit(target)
    name = unquote(url.path).strip("/").partition("/")[2].partition("/")[2]
    if not name:
        listed = re.search(r"(?:^|&)prefix=([^&]*)", url.query)
        name = "list " + (unquote(listed[1]).partition("/")[2] if listed else "")
    return _LONG.sub(lambda found: found[0][:4] + "\N{HORIZONTAL ELLIPSIS}" + found[0][-4:], name)[
        -52:
    ]


def _size(size: int) -> str:
    if size >= 1 << 20:
        return f"{size / 2**20:.1f} MiB"
    return f"{size / 1024:.0f} KiB" if size >= 1_024 else f"{size} B"
