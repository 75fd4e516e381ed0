"""A query that was decided on and is to be run: text and values only, so that another process can
run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

Parameters: TypeAlias = Sequence[object] | Mapping[str, object] | None
"""Values for ``?`` and ``$1``, or for ``$name``."""

Step: TypeAlias = tuple[str, Sequence[object]]
"""A statement, and the values for its parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What DuckDB is to do."""

    views: tuple[Step, ...]
    """What makes a view of every table, and of every name that must not be sought elsewhere; in
    this order."""
    sql: str
    parameters: Parameters = None
    limit: int | None = None
    seconds: float | None = None
    """After so many the other process ends itself, should nobody be left to end it."""


class Running(Protocol):
    """A query that has begun. For one reader; ``cancel`` and ``kill`` from any thread."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as they are made.

        Raises what the engine says, as an error of DuckDB or of the tree.
        """
        ...

    def cancel(self) -> None:
        """Stop soon: the reader gets an error."""
        ...

    def close(self) -> None:
        """Let everything go; allowed twice, and after any error."""
        ...


class Runner(Protocol):
    """Runs tasks."""

    @property
    def ready(self) -> bool:
        """Whether a task would begin at once, but for other tasks."""
        ...

    def start(
        self,
        task: Task,
        began: Callable[[Callable[[], None]], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Running:
        """Begin; ``began`` is told at once how to stop it, before any of it has run. ``meanwhile``
        is called once, while it begins where that is another process's work; if it raises, the
        query is stopped. Raises what the SQL is refused for."""
        ...

    def close(self) -> None:
        """End every query."""
        ...
