"""Measures a large table: each piece of work in a process that has done nothing before.

The table is in a folder of its own, which is removed. Its files are not synced to disk, so what is
measured is the work and not the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import TypeAlias

from blockstore.simulation.large.table import make_table, make_tree
from blockstore.simulation.large.work import (
    Figure,
    Watch,
    commits,
    compaction,
    compaction_cold,
    compaction_later,
    everything,
    exports,
    many_commits,
    opened,
    passed,
)
from blockstore.world import World

Work: TypeAlias = Callable[[str, int, World], list[Figure]]

_WORKS: tuple[Work, ...] = (
    opened,
    everything,
    passed,
    compaction,
    commits,
    exports,
    compaction_later,
    compaction_cold,
)
_OF_TREES: tuple[Work, ...] = (
    opened,
    passed,
    compaction,
    many_commits,
    commits,
    compaction_later,
    compaction_cold,
)


def measure_large(blocks: int, *, tree: bool = False) -> Iterator[Figure]:
    """Yield the figures of a table of so many blocks, each as it was taken; with ``tree`` of one
    whose index is in leaves."""
    works = (_made_tree, *_OF_TREES) if tree else (_made, *_WORKS)
    with TemporaryDirectory(prefix="blockstore-large-") as folder:
        url = f"{folder}/table?durable=false"
        for work in works:
            yield from _apart(work, url, blocks)


def _made(url: str, blocks: int, world: World) -> list[Figure]:
    watch = Watch(world)
    watch.run("make the table", lambda: make_table(url, blocks, world))
    return watch.figures


def _made_tree(url: str, blocks: int, world: World) -> list[Figure]:
    watch = Watch(world)
    watch.run("make the table", lambda: make_tree(url, blocks, world))
    return watch.figures


def _apart(work: Work, url: str, blocks: int) -> list[Figure]:
    """The figures of some work, done in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_in_process, work, url, blocks).result()


def _in_process(work: Work, url: str, blocks: int) -> list[Figure]:
    return work(url, blocks, World.real())
