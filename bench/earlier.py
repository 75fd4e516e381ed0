"""The peers' figures that the targets were set with, and why a figure of today differs from them.

A peer more than 20 % off its earlier figure has a reason here or is shown without one, so that
a slow peer is not taken for a fast product.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.result import Result

__all__ = ["EARLIER", "Earlier"]

TOLERANCE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """One figure, measured before, on another machine of two cores."""

    case: str
    peer: str
    metric: str
    figure: float
    reason: str = ""
    """Why today's figure is another one, in half a sentence."""

    def now(self, result: Result) -> float | None:
        """Today's figure over the earlier one."""
        found = result.median(self.peer, self.metric)
        return None if found is None else found / self.figure

    def off(self, quotient: float) -> bool:
        """Whether the difference wants a reason."""
        return abs(quotient - 1) > TOLERANCE


def _earlier(case: str, metric: str, **figures: float) -> tuple[Earlier, ...]:
    return tuple(
        Earlier(
            case=case, peer=peer, metric=metric, figure=figure, reason=REASONS.get((case, peer), "")
        )
        for peer, figure in figures.items()
    )


REASONS: dict[tuple[str, str], str] = {}

EARLIER = (
    *_earlier("append", "commits_per_s", floor=805, lance=327, delta=44, iceberg=6.7),
    *_earlier("append16", "commits_per_s", floor=355, lance=90, delta=12, iceberg=5),
    *_earlier("open-10k", "open_ms", floor=23, lance=228, delta=36, iceberg=1_560),
    *_earlier("poll", "poll_ms", lance=0.5, delta=1.5, iceberg=15),
    *_earlier("merge_wide", "rows_per_s", duckdb=1.68, lance=2.8, delta=1.2),
    *_earlier("merge_small", "rows_per_s", duckdb=1.2, lance=1.0, delta=0.5, iceberg=0.26),
    *_earlier("point", "query_ms", duckdb=17.5, lance=351, delta=24, iceberg=24),
    *_earlier("groupby", "query_ms", duckdb=135, lance=316, delta=174, iceberg=326),
)
