"""A query that is ready to run: text and values only, so that another process can run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

Parameters: TypeAlias = Sequence[object] | Mapping[str, object] | None
"""Values for ``?`` and ``$1``, or for ``$name``."""


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that a view reads beside files."""

    name: str
    rows: pa.Table


Step: TypeAlias = tuple[str, Sequence[object]] | Given
"""A statement and the values of its parameters; or rows that are given a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What DuckDB is to do."""

    views: tuple[Step, ...]
    """What creates a view for each table, and for each name that DuckDB must not search among
    files; in this order."""
    sql: str
    parameters: Parameters = None
    limit: int | None = None
    seconds: float | None = None
    """After this time the other process ends itself, in case its gateway is gone."""


class Running(Protocol):
    """A query that has begun. For one reader; any thread may call ``cancel``."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as they are made. Raises errors of DuckDB and project errors."""
        ...

    def cancel(self) -> None:
        """Stop soon; the reader raises an error."""
        ...

    def close(self) -> None:
        """Release everything; allowed twice, and after any error."""
        ...


class Runner(Protocol):
    """Runs tasks."""

    @property
    def ready(self) -> bool:
        """Whether a task could start at once, apart from other tasks."""
        ...

    def start(
        self,
        task: Task,
        began: Callable[[Callable[[], None]], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Running:
        """Start a task. ``began`` receives a function that stops it, before it runs. ``meanwhile``
        is called once, while another process starts the task; if it raises, the task is stopped.
        Raises the error of the SQL."""
        ...

    def close(self) -> None:
        """End every query."""
        ...
