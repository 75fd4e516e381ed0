"""What one run of one bench found, as a value and as JSON (``bench/results/<name>.json``)."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from bench.case import Scale
from bench.machine import Machine

__all__ = ["Contestant", "Result", "Status"]

FORMAT = 1


class Status(StrEnum):
    """How a contestant fared."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    """It cannot do this: a dash."""
    FAILED = "failed"
    """It broke, or answered wrongly: no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """The figures of one contestant, one for each round."""

    version: str
    settings: str
    status: Status
    reason: str
    figures: Mapping[str, tuple[float, ...]]

    def median(self, metric: str) -> float | None:
        """The median over the rounds, or None if there is no such figure."""
        rounds = self.figures.get(metric, ())
        return statistics.median(rounds) if rounds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run of one bench."""

    bench: str
    scale: Scale
    date: str
    """UTC, ISO 8601, when the run began."""
    machine: Machine
    sizes: Mapping[str, int]
    rounds: int
    contestants: Mapping[str, Contestant]

    def median(self, contestant: str, metric: str) -> float | None:
        """A contestant's median of a metric, or None if it has none in this run."""
        found = self.contestants.get(contestant)
        return found.median(metric) if found else None

    def save(self, directory: Path) -> Path:
        """Write ``<bench>.json`` into ``directory``; the medians stand beside the rounds."""
        content = {"format": FORMAT} | asdict(self)
        for name, contestant in self.contestants.items():
            content["contestants"][name]["median"] = {
                metric: contestant.median(metric) for metric in contestant.figures
            }
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.bench}.json"
        path.write_text(json.dumps(content, indent=2) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read what ``save`` wrote."""
        content = json.loads(path.read_text())
        if (found := content.get("format")) != FORMAT:
            raise ValueError(f"{path} has format {found}, expected {FORMAT}: run this bench again")
        contestants = {
            name: Contestant(
                version=entry["version"],
                settings=entry["settings"],
                status=Status(entry["status"]),
                reason=entry["reason"],
                figures={metric: tuple(rounds) for metric, rounds in entry["figures"].items()},
            )
            for name, entry in content["contestants"].items()
        }
        return cls(
            bench=content["bench"],
            scale=Scale(content["scale"]),
            date=content["date"],
            machine=Machine(**content["machine"]),
            sizes=content["sizes"],
            rounds=content["rounds"],
            contestants=contestants,
        )
