"""What a handle on a table offers for its changes; ``Table`` inherits it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from blockstore.operations.access import Access

if TYPE_CHECKING:
    import pyarrow as pa

    from blockstore.feed.changes import Changes
    from blockstore.feed.totals import Materialized, Wanted


class Following(ABC):
    """Reading what versions changed, row by row."""

    @property
    @abstractmethod
    def _access(self) -> Access: ...

    def changes(
        self, after: int, until: int | None = None, *, before_images: bool = False
    ) -> Changes:
        """Return what the versions after ``after`` changed, up to ``until`` or the newest one.

        Iterating yields Arrow batches, ordered by version, each of one version. Columns are
        ``_change`` (``insert``, ``update``, ``delete``, and with ``before_images``
        ``update_before``: the row as it was), ``_version``, ``_time``, ``_reason`` (why a row was
        removed, or that the rows are one net difference), ``_row_id`` where rows have ids, then
        those of the table. A deleted row has the columns that it had. ``until`` of the result is
        the version to continue after.

        Raises VersionExpired, naming the oldest version left, where the changes are no longer
        known; NotFound for a version that was never written.
        """
        from blockstore.feed.changes import changes

        return changes(self._access, after=after, until=until, before_images=before_images)

    def follow(
        self, after: int, *, poll_s: float = 1.0, before_images: bool = False
    ) -> Iterator[Changes]:
        """Yield what the versions after ``after`` changed, then wait for newer ones and yield
        theirs, without end. ``poll_s`` is the time in seconds between two looks.

        Raises what ``changes`` raises.
        """
        from blockstore.feed.changes import follow

        return follow(self._access, after=after, poll_s=poll_s, before_images=before_images)

    def totals_schema(self, wanted: Wanted) -> pa.Schema:
        """Return the columns of a table for totals of this one; its key is ``wanted.by``. Raises
        Invalid for totals that cannot be."""
        from blockstore.feed.form import Form

        return wanted.schema(Form.of(self._access.log.newest()).columns.visible)

    def materialize(self, target: Following, wanted: Wanted) -> Materialized:
        """Bring a table of totals of this one up to its newest version, in one version that counts
        once.

        Only the groups that were changed since are counted again. Raises Invalid where the target
        has other columns than ``totals_schema``, or a row has null in a column to group by;
        Conflict where another process brought it further meanwhile.
        """
        from blockstore.feed.totals import materialize

        return materialize(self._access, target._access, wanted)
