"""The peak memory of a process and all that it started, sampled from outside.

The sum counts each process's own pages, and the pages that they share (libraries, mapped files)
once.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

try:
    import psutil
except ModuleNotFoundError:  # in .venv, where only the harness itself is tested
    psutil = None

__all__ = ["highest_mib", "wait_sampling"]

SAMPLE_S = 0.05
RESCAN_EVERY = 5


def wait_sampling(process: subprocess.Popen[bytes], timeout_s: float) -> float | None:
    """Wait for ``process`` and return the peak in MiB; None where psutil is missing."""
    if psutil is None:
        process.wait(timeout_s)
        return None
    deadline = time.monotonic() + timeout_s
    root = psutil.Process(process.pid)
    members: list[psutil.Process] = [root]
    peak = 0
    samples = 0
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(process.args, timeout_s)
        if samples % RESCAN_EVERY == 0:
            members = [root, *_children(root)]
        samples += 1
        peak = max(peak, _sum(members))
        time.sleep(SAMPLE_S)
    return peak / 2**20


def highest_mib(process: int) -> float:
    """The most that a process and those which it started have held so far, each by itself, in MiB:
    pages that they share count for each."""
    members = [process, *(child.pid for child in _children(psutil.Process(process)))]
    texts = [Path(f"/proc/{member}/status").read_text().splitlines() for member in members]
    found = [line.split()[1] for text in texts for line in text if line.startswith("VmHWM")]
    return sum(map(int, found)) / 1024


def _children(root: psutil.Process) -> list[psutil.Process]:
    try:
        return list(root.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _sum(members: list[psutil.Process]) -> int:
    own, shared = 0, 0
    for member in members:
        try:
            info = member.memory_info()
        except psutil.NoSuchProcess:
            continue
        common = getattr(info, "shared", 0)
        own += info.rss - common
        shared = max(shared, common)
    return own + shared
