"""How far a verb is, on standard error, only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from blockstore.cli.files.opening import Advance


@contextmanager
def progress(
    what: str, total: float | None, *, quiet: bool = False, counted: bool = False
) -> Iterator[Advance]:
    """Yield a function that advances the bar; it does nothing without a terminal.

    ``total`` is in bytes, or, if ``counted``, in things.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    amount = (MofNCompleteColumn(),) if counted else (DownloadColumn(), TransferSpeedColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *amount)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


@contextmanager
def rows_so_far(what: str, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds to the number of rows that is shown, beside the time that has
    passed; it does nothing without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}  {task.completed:,.0f} rows"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda rows: shown.advance(task, rows)
