"""The section of ``docs/benchmarks.md`` about the number of files in a table, with its pictures."""

from __future__ import annotations

from collections.abc import Mapping

from bench.lines import Panel, Points, svg
from bench.result import Result

__all__ = ["PICTURES", "of_scale", "pictures", "section"]

PREFIX = "scale-"
OURS = "ours-leaves"
COSTS, MEMORY = f"{PREFIX}costs", f"{PREFIX}memory"
PICTURES = {COSTS: "Costs against files", MEMORY: "Memory against files"}
"""The pictures, and what they are called."""
ABOUT = """\
What a table of many files costs before a byte of them is read, by the cases `scale-…`. The files
are not there: the tables are made of what metadata say of them, the same for all. Ours has its
index in leaves. Each figure is of a process of its own whose libraries are imported before the
clock runs; a library that loads pandas does so before. Other work ran on the machine: CPU seconds
are compared, of all threads, and memory is the peak that the system counts for the process. A plan
names the files that a query of one row reads; Lance keeps no values of files, so it names all. A
commit is of one file's metadata, checkpoints included: the mean of 1,024 for ours, of 100 for the
others, of 20 at a million files, which is before Delta's next checkpoint. Delta's plan is
`file_uris` with a predicate, Iceberg's `plan_files`, Lance's `get_fragments`. A gateway is two
processes, of which each counts what both share.
"""


def of_scale(results: Mapping[str, Result]) -> dict[str, Result]:
    """The results that the section is about, the smallest table first."""
    found = {name: result for name, result in results.items() if name.startswith(PREFIX)}
    return dict(sorted(found.items(), key=lambda each: each[1].sizes["files"]))


def section(results: Mapping[str, Result]) -> str:
    """The section, or nothing if no such bench was run."""
    if not of_scale(results):
        return ""
    shown = [f"![{title}](benchmarks/{name}.svg)" for name, title in PICTURES.items()]
    return "\n".join(["## Files in a table\n", ABOUT, *shown])


def pictures(results: Mapping[str, Result]) -> dict[str, str]:
    """The pictures as SVG, by name; none if no such bench was run."""
    found = of_scale(results)
    if not found:
        return {}
    peers = list(dict.fromkeys(name for each in found.values() for name in each.contestants))

    def of_all(metric: str) -> dict[str, Points]:
        return {peer: _points(found, peer, metric) for peer in peers}

    costs = (
        Panel(title="a commit, checkpoints included, ms CPU", lines=of_all("commit_cpu_ms")),
        Panel(title="open and plan a query of one row, s CPU", lines=of_all("plan_cpu_s")),
        Panel(title="open and plan a query of all rows, s CPU", lines=of_all("all_cpu_s")),
    )
    memory = (
        Panel(
            title="ours, MiB",
            lines={
                name: _points(found, OURS, metric)
                for name, metric in (
                    ("open", "open_mib"),
                    ("plan", "plan_mib"),
                    ("merges", "merges_mib"),
                    ("gateway", "gateway_mib"),
                    ("all rows", "all_mib"),
                    ("commits", "commit_mib"),
                )
            },
        ),
        Panel(title="open and plan a query of one row, MiB", lines=of_all("plan_mib")),
        Panel(title="open and plan a query of all rows, MiB", lines=of_all("all_mib")),
    )
    return {COSTS: svg(PICTURES[COSTS], costs), MEMORY: svg(PICTURES[MEMORY], memory)}


def _points(found: Mapping[str, Result], peer: str, metric: str) -> Points:
    """A figure of one contestant at each size at which it has one."""
    return [
        (result.sizes["files"], value)
        for result in found.values()
        if (value := result.median(peer, metric))
    ]
