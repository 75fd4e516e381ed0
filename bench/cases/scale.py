"""What grows with the number of files in a table: opening it, planning, committing.

No file is there: a table is made of what metadata say of a file (``bench.files``), so that there
can be ten million. Each figure is that of a process of its own, whose libraries are imported before
the clock runs.
"""

from __future__ import annotations

from bench import files, peers
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.at_latency import counts, delays, median, metrics, proxied
from bench.latency.session import Session
from bench.peers.api import Peer, Unsupported

__all__ = ["S3_SCALE_CASES", "SCALE_CASES"]

SMALL = 1_000
"""Files of the table whose commits are timed beside those of a larger one."""
LATE = 100
TURN = 16
"""Commits of one turn: how fast the machine is changes within seconds."""
APART_MS = 1_000
"""Windows of merges, in which no two files are but those that came late."""


def prepare(task: Task) -> None:
    """A table of ``files`` files."""
    task.peer.make_files(task.directory, task.sizes["files"])


def measure(task: Task) -> Figures:
    """Each in turn: what changes nothing first."""
    return {
        **_opened(task),
        **_everything(task),
        **_committed(task),
        **_merges(task),
        **_gateway(task),
    }


def _opened(task: Task) -> dict[str, float]:
    """Open the table, and plan two queries for one row each."""
    count = task.sizes["files"]
    planned = 1 if task.peer.prunes else _all(task.peer, count)
    with Session.started(task.peer, task.directory) as session:
        start_mib = session.peak_mib()
        opened = session.do("open")
        open_mib = session.peak_mib()
        first = session.do("plan", key=files.key(count // 2), expected=planned)
        plan_mib = session.peak_mib()
        again = session.do("plan", key=files.key(count // 3), expected=planned)
    return {
        "plan_cpu_s": opened.cpu_s + first.cpu_s,
        "plan_s": (opened.ms + first.ms) / 1_000,
        "plan_mib": plan_mib,
        "open_cpu_s": opened.cpu_s,
        "open_mib": open_mib,
        "start_mib": start_mib,
        "again_ms": again.cpu_s * 1_000,
        "planned": planned,
    }


def _everything(task: Task) -> dict[str, float]:
    """Name the files of all rows, as a reader of all of them does."""
    if not task.sizes["all_rows"]:
        return {}
    with Session.started(task.peer, task.directory) as session:
        opened = session.do("open")
        found = session.do("plan_all", expected=_all(task.peer, task.sizes["files"]))
        return {"all_cpu_s": opened.cpu_s + found.cpu_s, "all_mib": session.peak_mib()}


def _committed(task: Task) -> dict[str, float]:
    """Commit to the table and to a small one in turn, so that both have the machine alike."""
    small = task.directory / "small"
    small.mkdir()
    task.peer.make_files(small, SMALL)
    times = task.sizes["commits" if task.peer.family == "ours" else "peer_commits"]
    seconds, cpu_s = [0.0, 0.0], [0.0, 0.0]
    places = (task.directory, task.sizes["files"]), (small, SMALL)
    with (
        Session.started(task.peer, task.directory) as large,
        Session.started(task.peer, small) as other,
    ):
        for session, (_, first) in zip((large, other), places, strict=True):
            session.do("add_files", first=first, times=1)
        for done in range(0, times, TURN):
            for which, session in enumerate((large, other)):
                first = places[which][1] + 1 + done
                found = session.do("add_files", first=first, times=min(TURN, times - done))
                seconds[which] += found.ms / 1_000
                cpu_s[which] += found.cpu_s
        commit_mib = large.peak_mib()
    return {
        "commit_cpu_ms": cpu_s[0] / times * 1_000,
        "commit_ms": seconds[0] / times * 1_000,
        "commit_ratio": cpu_s[0] / cpu_s[1],
        "commit_mib": commit_mib,
    }


def _merges(task: Task) -> dict[str, float]:
    """Find what there is to merge once some files came late, in a process that knows nothing."""
    try:
        with Session.started(task.peer, task.directory) as session:
            session.do("add_late", count=LATE)
        with Session.started(task.peer, task.directory) as session:
            found = session.do("plan_merges", apart_ms=APART_MS, expected=LATE)
            return {"merges_cpu_s": found.cpu_s, "merges_mib": session.peak_mib()}
    except Unsupported:
        return {}


def _gateway(task: Task) -> dict[str, float]:
    """The memory of a gateway and of the process of its query, which finds some rows."""
    if task.peer.name != "ours-leaves":
        return {}
    with Session.started(peers.load("ours-gateway"), task.directory) as session:
        session.do("point", low=-10, rows=10)
        return {"gateway_mib": session.peak_mib()}


def _all(peer: Peer, count: int) -> int:
    """The files of a table that was made of ``count``: ours has one more, which is there."""
    return count + (peer.family == "ours")


def measure_far(task: Task) -> Figures:
    """Open and plan at latency, in fresh processes."""
    count = task.sizes["files"]
    planned = 1 if task.peer.prunes else _all(task.peer, count)
    figures: dict[str, float] = {}
    with proxied() as proxy:
        for delay in delays(task):
            proxy.set(delay_ms=delay)
            found = []
            for _ in range(task.sizes["repeats"]):
                with Session.started(task.peer, task.directory, proxy) as session:
                    found.append(session.do("plan", key=files.key(count // 2), expected=planned))
            figures[f"ms_{delay}"] = median([each.ms for each in found])
            figures |= counts(found)
    return figures


def _metric(name: str, unit: str, title: str, digits: int = 1) -> Metric:
    return Metric(name=name, unit=unit, title=title, higher_is_better=False, digits=digits)


# A result has the rest too: ``open_cpu_s``, ``commit_mib``, and what the libraries take
# (``start_mib``).
METRICS = (
    _metric("plan_cpu_s", "s CPU", "open and plan a query of one row", 2),
    _metric("plan_s", "s", "by the clock", 2),
    _metric("plan_mib", "MiB", "memory", 0),
    _metric("planned", "", "files in the plan", 0),
    _metric("again_ms", "ms CPU", "another plan"),
    _metric("open_mib", "MiB", "memory of the open", 0),
    _metric("all_cpu_s", "s CPU", "open and plan all", 2),
    _metric("all_mib", "MiB", "memory", 0),
    _metric("commit_cpu_ms", "ms CPU", "commit", 2),
    _metric("commit_ms", "ms", "by the clock", 1),
    _metric("commit_ratio", "\N{MULTIPLICATION SIGN}", "against 1,000 files", 2),
    _metric("merges_cpu_s", "s CPU", "open and plan merges", 2),
    _metric("merges_mib", "MiB", "memory", 0),
    _metric("gateway_mib", "MiB", "gateway", 0),
)
ALL = ("ours-leaves", "lance", "delta", "iceberg")


def _case(
    name: str,
    count: int,
    quick: int,
    taking_part: tuple[str, ...],
    *,
    peer_commits: int = 100,
    all_rows: bool = True,
) -> Case:
    others = {"peer_commits": peer_commits, "all_rows": int(all_rows)}
    return Case(
        name=f"scale-{name}",
        sentence=f"open, plan and commit to a table of {count:,} files, by their metadata alone",
        peers=taking_part,
        metrics=METRICS,
        sizes={
            Scale.FULL: {"files": count, "commits": 1_024, **others},
            Scale.QUICK: {"files": quick, "commits": 64, **others, "peer_commits": 20},
            Scale.TINY: {"files": 200, "commits": 4, **others, "peer_commits": 4},
        },
        rounds=1,
        prepare=Prepare(name="files", run=prepare, every_round=True),
        measure=measure,
        reference="ours-leaves",
    )


def _far(name: str, count: int, quick: int, taking_part: tuple[str, ...]) -> Case:
    return Case(
        name=f"s3-scale-{name}",
        sentence=f"open a table of {count:,} files on an S3 server with latency, and plan a query "
        "of one row",
        peers=taking_part,
        metrics=metrics(),
        sizes={
            Scale.FULL: {"files": count, "repeats": 5, "every_delay": 0},
            Scale.QUICK: {"files": quick, "repeats": 3, "every_delay": 0},
            Scale.TINY: {"files": 200, "repeats": 1, "every_delay": 0},
        },
        rounds=1,
        prepare=Prepare(name="s3-files", run=prepare, every_round=True),
        measure=measure_far,
        reference="ours-leaves-s3",
        store=True,
    )


SCALE_CASES = (
    _case("1k", 1_000, 500, ALL),
    _case("10k", 10_000, 2_000, ALL),
    _case("100k", 100_000, 5_000, ALL),
    # Some of theirs take seconds.
    _case("1m", 1_000_000, 20_000, ALL, peer_commits=20),
    _case("10m", 10_000_000, 50_000, ("ours-leaves",), all_rows=False),
)
S3_SCALE_CASES = (
    _far("100k", 100_000, 1_000, ("ours-leaves-s3", "lance-s3", "delta-s3")),
    _far("1m", 1_000_000, 2_000, ("ours-leaves-s3",)),
)
