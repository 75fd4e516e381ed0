"""What a handle on a table offers for going back: to the state before a write, or of a version;
``Table`` inherits it.

Rule: where rows have no identity, blocks are hidden or brought back; where they have one, rows get
their former states as new versions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from blockstore.format.definition import Definition
from blockstore.operations.access import Access

if TYPE_CHECKING:
    from blockstore.format.block import Job
    from blockstore.operations.results import Restored, Reverted
    from blockstore.rows.attempts import Said


class GoingBack(ABC):
    """Operations that undo others."""

    @property
    @abstractmethod
    def _access(self) -> Access: ...

    @property
    @abstractmethod
    def definition(self) -> Definition: ...

    def revert(
        self,
        *sources: str | int,
        strict: bool = False,
        dry_run: bool = False,
        message: str = "",
        job: Job | None = None,
    ) -> Reverted:
        """Hide the rows of entire writes, wherever merges have carried them; no rows move.

        ``sources`` are ULIDs as ``append`` returned them, or values of ``_source``. Reverting an
        overwrite does not bring back what it replaced: ``restore`` does. Where rows have an
        identity, rows of these writes (or of all writes of a version, by its number) get their
        former state as a new version; those that were changed since stay, or raise RowConflict if
        ``strict``. With a ``job`` it happens once.
        """
        if self.definition.identity is not None:
            from blockstore.rows.revert import revert_rows

            said = _said(message, job)
            return revert_rows(self._access, sources, said, strict=strict, dry_run=dry_run)
        from blockstore.operations.revert import revert

        return revert(self._access, sources, dry_run=dry_run, message=message, job=job)

    def restore(
        self,
        *,
        version: int | None = None,
        tag: str | None = None,
        as_of: object = None,
        dry_run: bool = False,
        message: str = "",
        job: Job | None = None,
    ) -> Restored:
        """Show again what an earlier version did, in one new version; nothing is copied.

        Schema and properties stay. Where rows have an identity, each that is not as it was then
        gets a new version with its former state. With a ``job`` it happens once.
        """
        if self.definition.identity is not None:
            from blockstore.rows.restore import restore_rows

            return restore_rows(
                self._access,
                _said(message, job),
                version=version,
                tag=tag,
                as_of=as_of,
                dry_run=dry_run,
            )
        from blockstore.operations.restore import restore

        return restore(
            self._access,
            version=version,
            tag=tag,
            as_of=as_of,
            dry_run=dry_run,
            message=message,
            job=job,
        )


def _said(message: str, job: Job | None) -> Said:
    from blockstore.operations.conditions import check_said
    from blockstore.rows.attempts import Said

    check_said(job, message)
    return Said(message=message, job=job)
