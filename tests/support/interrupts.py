"""Processes that hear Ctrl-C."""

from __future__ import annotations

import signal

__all__ = ["hear"]


def hear() -> None:
    """For ``preexec_fn``: a suite that was started in the background ignores SIGINT, and its
    children would as well."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
