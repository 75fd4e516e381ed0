"""How many files and connections a test may have open."""

from __future__ import annotations

import resource


def allow_files(many: int) -> None:
    """Raise the soft limit of this process to so many, if it is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < many:
        resource.setrlimit(resource.RLIMIT_NOFILE, (many, hard))
