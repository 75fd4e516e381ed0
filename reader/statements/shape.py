"""A table as a statement sees it: its columns, and after them its labels as columns of text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from blockstore.format.definition import Definition
from blockstore.scan.columns import Columns
from blockstore.scan.snapshot import Snapshot


@dataclass(frozen=True)
class Shape:
    """What a statement can name of one table."""

    definition: Definition
    labels: tuple[str, ...] = ()
    """The labels that the table, or some row of it, has, and that no column hides."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Shape:
        """The shape of a table at one version."""
        return cls(snapshot.definition, snapshot.columns.labels)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns that a query without names returns."""
        return Columns.of(self.definition, self.labels).visible
