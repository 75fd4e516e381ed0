"""What a bench is: a case, as a value.

A case says who takes part, which figures come out, how big it is at each scale, and the two
functions that a worker process calls for one contestant: ``prepare`` (never timed) and ``measure``
(one round).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from bench.peers.api import Peer

__all__ = ["Case", "Figures", "Metric", "Prepare", "Scale", "Sizes", "Task"]

Sizes = Mapping[str, int]
Figures = Mapping[str, float]


class Scale(StrEnum):
    """How big a run is."""

    FULL = "full"
    """The sizes that the targets name."""
    QUICK = "quick"
    """A minute in all, to see where a change leads."""
    TINY = "tiny"
    """Seconds: only shows that the harness works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a case."""

    name: str
    unit: str
    title: str
    higher_is_better: bool
    digits: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One contestant's turn."""

    peer: Peer
    directory: Path
    """The contestant's folder: what ``prepare`` made, or an empty one."""
    sizes: Sizes
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Makes the table that a case measures. Cases with an equal ``name`` and equal sizes share one
    table, unless each round needs its own."""

    name: str
    run: Callable[[Task], None]
    every_round: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A bench."""

    name: str
    sentence: str
    """What is done, for the reader of the figures."""
    peers: tuple[str, ...]
    metrics: tuple[Metric, ...]
    sizes: Mapping[Scale, Sizes]
    rounds: int
    measure: Callable[[Task], Figures]
    prepare: Prepare | None = None
    borrows: Mapping[str, str] = field(default_factory=dict)
    """Contestant -> the contestant whose prepared table it reads: the same files for both."""
    memory: bool = False
    """Whether the peak memory of all processes of the contestant is sampled (metric
    ``memory_mib``)."""
    reference: str = ""
    """The contestant that the printed ratios are taken against."""
    store: bool = False
    """Whether it needs an S3 server: one is started for the run, and the environment names it."""
