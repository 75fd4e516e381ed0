"""A checker of histories in the manner of Elle: transactions append unique values to lists and read
them, and what was read shows an order that snapshot isolation forbids, or does not.

Each value names the transaction that appended it, and each list that was read shows the order of
its appends. From these follow the dependencies: of an append on the one before it (ww), of a read
on the last append that it saw (wr), and of the next append on a read that did not see it (rw).
Snapshot isolation forbids a cycle in which no two rw dependencies are adjacent: G0, G1c, G-single
and their like. It allows write skew, where two are; a serializable history has no cycle at all.
Beside cycles are found: values of transactions that failed (G1a), values from nowhere or twice,
lists that contradict each other, and acknowledged appends that the end lacks (lost updates).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"

Lists = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One that read some lists at one moment, and appended a value to some."""

    name: str
    reads: Lists = field(default_factory=dict)
    appends: Mapping[int, int] = field(default_factory=dict)
    outcome: str = OK
    """``ok``; ``failed``: nothing of it was applied; ``unknown``: its process died."""


def problems(
    history: Sequence[Transaction], end: Lists, *, serializable: bool = False
) -> list[str]:
    """What snapshot isolation forbids in a history after which the lists were ``end``; or what no
    ``serializable`` history has."""
    writers = {value: one for one in history for value in one.appends.values()}
    found = _values(history, end, writers)
    return found or _cycles(history, end, writers, serializable=serializable)


def _values(
    history: Sequence[Transaction], end: Lists, writers: Mapping[int, Transaction]
) -> list[str]:
    found = []
    for key, final in end.items():
        if len(set(final)) < len(final):
            found.append(f"list {key} has a value twice: {final}")
        for value in final:
            writer = writers.get(value)
            if writer is None:
                found.append(f"list {key} has {value}, which no transaction appended")
            elif writer.outcome == FAILED:
                found.append(f"G1a: list {key} has {value} of {writer.name}, which failed")
    for one in history:
        for key, value in one.appends.items():
            if one.outcome == OK and value not in end.get(key, ()):
                found.append(f"lost update: {value} of {one.name} is not in list {key} at the end")
        for key, read in one.reads.items() if one.outcome != FAILED else ():
            if end.get(key, ())[: len(read)] != read:
                found.append(
                    f"{one.name} read {read} in list {key}, which ends as {end.get(key, ())}"
                )
    return found


def _cycles(
    history: Sequence[Transaction],
    end: Lists,
    writers: Mapping[int, Transaction],
    *,
    serializable: bool,
) -> list[str]:
    depends: dict[str, set[str]] = {}
    precedes: dict[str, set[str]] = {}
    for final in end.values():
        for earlier, later in pairwise(final):
            _edge(depends, writers[earlier].name, writers[later].name)
    for one in history:
        for key, read in one.reads.items() if one.outcome != FAILED else ():
            final = end.get(key, ())
            if read:
                _edge(depends, writers[read[-1]].name, one.name)
            if len(read) < len(final):
                _edge(precedes, one.name, writers[final[len(read)]].name)
    # A dependency, then at most one rw: a cycle of these has no two adjacent rw.
    graph: dict[str, set[str]] = {
        name: {*after, *(far for one in after for far in precedes.get(one, ()))}
        for name, after in depends.items()
    }
    if serializable:
        names = sorted(depends.keys() | precedes.keys())
        graph = {name: depends.get(name, set()) | precedes.get(name, set()) for name in names}
    cycle = _cycle(graph)
    return [] if cycle is None else [f"a forbidden cycle: {' -> '.join(cycle)}"]


def _edge(graph: dict[str, set[str]], before: str, after: str) -> None:
    if before != after:
        graph.setdefault(before, set()).add(after)


def _cycle(graph: Mapping[str, Iterable[str]]) -> list[str] | None:
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        on_path: set[str] = set()
        stack = [(start, iter(graph.get(start, ())))] if start not in done else []
        path, on_path = ([start], {start}) if stack else ([], set())
        while stack:
            name, following = stack[-1]
            after = next(following, None)
            if after is None:
                stack.pop()
                path.pop()
                on_path.discard(name)
                done.add(name)
            elif after in on_path:
                return [*path[path.index(after) :], after]
            elif after not in done:
                stack.append((after, iter(graph.get(after, ()))))
                path.append(after)
                on_path.add(after)
    return None
