"""Changes of rows as an operation on the index.

Rules (design 8.4):
- Changes that read no rows never conflict: the later entry wins.
- Changes that have read rows at a version conflict if an entry since then has touched one of their
  rows, or may have. Which rows an entry touched says ``index/touches.py``. Such a conflict names
  no rows, and is planned again (``attempts.py``).
- Changes that read no rows, and have left some out because they were not there at a version,
  conflict so too if one of those was touched since; of the others the later entry wins.
- Where they are ``serializable`` they conflict too if anything else that they read would be read
  otherwise now (``seen.py``).
- An entry holds the changes of one operation: a block of each stream of which it changes rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from blockstore.errors import RowConflict
from blockstore.format.block import BlockMeta, Job
from blockstore.format.definition import Definition
from blockstore.index.added import AddedBlock
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.index.touches import Hashes
from blockstore.rows.seen import Seen


class NamedRows(Protocol):
    """The existing rows that blocks of changes name."""

    @property
    def hashes(self) -> Hashes | None:
        """The hashes of all of them, None if they are not known; requested only where rows were
        read."""
        ...

    @property
    def touched(self) -> bytes | None:
        """What an entry says of them; None: any row."""
        ...


@dataclass(frozen=True, slots=True)
class Absent:
    """Rows that a change leaves out, since they were not there at a version."""

    version: int
    rows: Hashes


@dataclass(kw_only=True)
class ChangeRows(Change):
    """Add blocks of changes, one of each stream, made under ``definition``."""

    operation: Operation
    commit: str
    blocks: tuple[BlockMeta, ...]
    named: NamedRows
    """The existing rows that they name."""
    definition: Definition
    read_version: int | None = None
    """The version at which the rows were read; None if none was."""
    absent: Absent | None = None
    """What changes that read no rows have left out."""
    seen: Seen | None = None
    """What else was read at it; None if that may have changed."""
    job: Job | None = None
    ordered: bool = True
    parameters: Mapping[str, object] = field(default_factory=dict)
    message: str = ""
    _untouched: int | None = field(default=None, init=False)
    """The last version up to which an earlier attempt has found the rows untouched."""

    def draft(self, state: State) -> Draft:
        if state.definition != self.definition:
            raise RowConflict(
                f"the table's definition was changed meanwhile, by version {state.version}, and "
                f"the rows of this {self.operation} were made under the one before: write them "
                "again"
            )
        if self.read_version is not None and state.version > self.read_version:
            self._check_untouched(state, self.read_version, self.named.hashes)
            if self.seen is not None:
                self.seen.check(state, self.read_version, str(self.operation))
        elif self.absent is not None and state.version > self.absent.version:
            self._check_untouched(state, self.absent.version, self.absent.rows)
        return Draft(
            add=tuple(AddedBlock(meta=block) for block in self.blocks),
            touched=self.named.touched,
            read_version=self.read_version,
            parameters=self.parameters,
            message=self.message,
        )

    def _check_untouched(self, state: State, read: int, rows: Hashes | None) -> None:
        since = self._untouched or read
        among = None if state.touches is None else state.touches.among(rows, since)
        if among is None or len(among):
            which = "rows" if among is None else f"{len(among):,} of the rows"
            may = "may have been" if among is None else "were"
            raise RowConflict(
                f"{which} that this {self.operation} read at version {read} {may} changed by "
                f"version {state.version}: read them again"
            )
        self._untouched = state.version
