"""A lake of many tables of which few are in use: what a gateway and a compactor send, and what they
keep in memory.

    python -m tests.end_to_end.many_tables --tables 10000 --active 20

In memory and in simulated time. Prints one line for each process; the exit code is 1 if a target is
missed: a gateway sends at most 2 requests for each table in use and poll, and 60 a minute; a
compactor 3 an hour for each quiet table; neither takes more than 500 MiB beyond the lake itself.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
from pathlib import Path

from tests.compactor.simulated import SELDOM, Simulated
from tests.compactor.tended import Tended
from tests.reader.tables.test_many import lake, minutes

_MIB = 1 << 20
_MOST_MIB = 500


def resident() -> int:
    """The memory of this process now, in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def gateway(tables: int, active: int) -> bool:
    """Measure a gateway; return whether it meets the targets."""
    scene = lake(tables, "many")
    before = resident()
    scene.settle()
    started = scene.requests()
    asked = [f"t{number:05}" for number in range(tables - active, tables)]
    minutes(scene, 1, asked)
    costs = minutes(scene, 10, asked)
    used = (resident() - before) / _MIB
    most = 2 * active * 60 / (15 * 0.9) + 60
    print(
        f"gateway: {tables:,} tables, {active} in use: {started:,} requests to start, at most "
        f"{max(costs)} a minute (target {most:.0f}), {used:.0f} MiB, "
        f"{threading.active_count()} threads"
    )
    return max(costs) <= most and used <= _MOST_MIB


def compactor(tables: int) -> bool:
    """Measure a compactor; return whether it meets the targets."""
    with tempfile.TemporaryDirectory() as folder:
        made = Tended(Path(folder))
        for number in range(tables):
            made.create(f"t{number:05}")
        before = resident()
        process = Simulated(made, loops=SELDOM)
        started = process.run(3)
        resting = len(process.resting())
        settled = process.run(46)
        an_hour = process.run(1)
        used = (resident() - before) / _MIB
        later = process.run(48) / 48
        print(
            f"compactor: {tables:,} quiet tables, {resting:,} at rest after 3 hours: {started:,} "
            f"requests to start, {settled / 46:,.0f} an hour in the two days after, in the hour "
            f"in which their entries are collected {an_hour:,}, then {later:,.0f} an hour (target "
            f"{3 * tables:,}), {used:.0f} MiB, {threading.active_count()} threads"
        )
        return later <= 3 * tables and used <= _MOST_MIB


def main() -> int:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=20)
    parser.add_argument("--only", choices=("gateway", "compactor"))
    given = parser.parse_args()
    met = []
    if given.only != "compactor":
        met.append(gateway(given.tables, given.active))
    if given.only != "gateway":
        met.append(compactor(given.tables))
    print(f"many-tables: {sum(met)} of {len(met)} within the targets")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
