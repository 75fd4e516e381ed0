"""A result as a table, for the terminal (rich) and for the docs (Markdown), from one set of
rows."""

from __future__ import annotations

from rich.table import Table

from bench.case import Case, Metric
from bench.result import Contestant, Result, Status

__all__ = ["DASH", "TIMES", "markdown", "number", "terminal"]

DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


def terminal(case: Case, result: Result) -> Table:
    """The table that a run prints."""
    header, *rows = _cells(case, result)
    table = Table(title=f"{case.name}: {case.sentence}", title_justify="left")
    for position, title in enumerate(header):
        table.add_column(title, justify="left" if position == 0 else "right")
    for row in rows:
        table.add_row(*row)
    return table


def markdown(case: Case, result: Result) -> str:
    """The same table in Markdown."""
    header, *rows = _cells(case, result)
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def number(value: float, digits: int) -> str:
    """A figure with thousands apart, and small ones with digits enough to compare."""
    if value and abs(value) < 10**-digits:
        return f"{value:.2g}"
    return f"{value:,.{digits}f}"


def _cells(case: Case, result: Result) -> list[list[str]]:
    metrics = [
        metric
        for metric in case.metrics
        if any(
            contestant.median(metric.name) is not None for contestant in result.contestants.values()
        )
    ]
    main = case.metrics[0]
    header = ["", *(f"{metric.title}, {metric.unit}".rstrip(", ") for metric in metrics)]
    header.append(f"against {case.reference}")
    rows = [header]
    for name, contestant in result.contestants.items():
        cells = [_figure(contestant, metric) for metric in metrics]
        rows.append([name, *cells, _ratio(result, name, case.reference, main)])
    return rows


def _figure(contestant: Contestant, metric: Metric) -> str:
    value = contestant.median(metric.name)
    if value is None:
        return "failed" if contestant.status is Status.FAILED else DASH
    return number(value, metric.digits)


def _ratio(result: Result, name: str, reference: str, metric: Metric) -> str:
    own, other = result.median(name, metric.name), result.median(reference, metric.name)
    return f"{number(own / other, 2)} {TIMES}" if own is not None and other else DASH
