"""One turn of one contestant, in a process of its own: ``python -m bench.worker REQUEST ANSWER``.

The request and the answer are JSON files. The process never raises over a contestant's fault: it
answers.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import peers
from bench.case import Scale, Task
from bench.cases import CASES
from bench.peers.api import Unsupported
from bench.result import Status

__all__ = ["Answer", "Request", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which turn to take."""

    case: str
    peer: str
    scale: Scale
    directory: str
    seed: int
    prepare: bool
    """Make the case's table, instead of measuring a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How it went."""

    status: Status
    reason: str
    version: str
    settings: str
    figures: dict[str, float]


def answer(request: Request) -> Answer:
    """Take the turn."""
    case = CASES[request.case]
    version = settings = ""
    try:
        peer = peers.load(request.peer)
        version, settings = peer.version(), peer.settings
        task = Task(
            peer=peer,
            directory=Path(request.directory),
            sizes=case.sizes[request.scale],
            seed=request.seed,
        )
        figures: dict[str, float] = {}
        if request.prepare:
            if case.prepare is not None:
                case.prepare.run(task)
        else:
            figures = dict(case.measure(task))
    except Unsupported as refusal:
        return Answer(
            status=Status.UNSUPPORTED,
            reason=str(refusal),
            version=version,
            settings=settings,
            figures={},
        )
    except Exception as error:  # noqa: BLE001 - a peer's fault is its result, not the end of the run
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Answer(
            status=Status.FAILED, reason=reason, version=version, settings=settings, figures={}
        )
    return Answer(status=Status.OK, reason="", version=version, settings=settings, figures=figures)


def main(request_path: str, answer_path: str) -> None:
    """Read the request, take the turn, write the answer."""
    fields = json.loads(Path(request_path).read_text())
    request = Request(**(fields | {"scale": Scale(fields["scale"])}))
    Path(answer_path).write_text(json.dumps(asdict(answer(request))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
