"""Verbs that run until they are interrupted: one pass after the other, with pauses of varying
length."""

from __future__ import annotations

import sys
from collections.abc import Callable

from blockstore.cli.failure import FAILED, Usage
from blockstore.cli.streams import output_closed
from blockstore.errors import Invalid, Unavailable
from blockstore.format.durations import parse_duration
from blockstore.world import World


def interval_s(text: str, option: str) -> float:
    """Parse a pause such as ``30s``. Raises Usage."""
    try:
        seconds = parse_duration(text, option)
    except Invalid as error:
        raise Usage(str(error)) from None
    if not seconds:
        raise Usage(f"{option} is {text!r}, expected a pause of at least 1ms")
    return seconds


def follow(world: World, pause_s: float, act: Callable[[], object]) -> int:
    """Run ``act`` with pauses until interrupted, and return the exit code.

    A store that does not respond is reported and tried again; any other error ends the verb.
    """
    try:
        while True:
            try:
                act()
            except Unavailable as error:
                sys.stderr.write(
                    f"trying again in about {pause_s:g} s: {' '.join(str(error).split())}\n"
                )
            sys.stdout.flush()
            if output_closed():
                return FAILED
            world.clock.sleep(world.ids.uniform(0.9, 1.1) * pause_s)
    except KeyboardInterrupt:
        return 0
