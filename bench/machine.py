"""The machine that figures were taken on; nothing in it names the machine itself."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

__all__ = ["Machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What decides how fast anything here can be."""

    cores: int
    memory_gib: float
    processor: str
    system: str
    python: str
    pyarrow: str
    numpy: str

    @classmethod
    def here(cls) -> Machine:
        """This machine, as this process may use it."""
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        return cls(
            cores=cores,
            memory_gib=round(pages / 2**30, 1),
            processor=_processor(),
            system=f"{platform.system()} {platform.release().partition('-')[0]}, "
            f"{platform.machine()}",
            python=platform.python_version(),
            pyarrow=metadata.version("pyarrow"),
            numpy=metadata.version("numpy"),
        )

    def sentence(self) -> str:
        """The machine in one line."""
        return (
            f"{self.cores} cores ({self.processor}), {self.memory_gib:g} GiB, {self.system}, "
            f"Python {self.python}, pyarrow {self.pyarrow}"
        )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
