"""What a handle on a table offers for rows that change; ``Table`` inherits it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from blockstore.format.block import Job
from blockstore.operations.access import Access
from blockstore.predicate import Condition
from blockstore.scan.view import TableSnapshot

if TYPE_CHECKING:
    from blockstore.operations.results import Changed
    from blockstore.rows.attempts import Said
    from blockstore.rows.merge import Merge
    from blockstore.rows.results import RowsChanged
    from blockstore.rows.update import Value


class ChangingRows(ABC):
    """Operations on rows that have an identity: row ids, or a key.

    Each is one version, or nothing. Readers are never kept waiting, and operations on different
    rows never conflict. A condition or a row id finds rows whatever labels they have, and a changed
    row keeps its own. A key names the row with the labels ``labels``, or else with the table's own;
    new rows get these too.

    An operation reads one version, and is planned again where others changed the rows that it
    changes. With ``isolation="serializable"`` (default: the table's property) also where they
    changed, added or deleted any row that it has read, or would read now.
    """

    @property
    @abstractmethod
    def _access(self) -> Access: ...

    @abstractmethod
    def snapshot(self) -> TableSnapshot: ...

    def upsert(
        self,
        data: Any,
        *,
        duplicates: str = "fail",
        sequence_by: str | None = None,
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        message: str = "",
    ) -> RowsChanged:
        """Make each row the current one of its key.

        Reads nothing and never conflicts: the later of two upserts wins. A key that occurs twice in
        ``data`` is refused, unless ``duplicates="last"`` keeps its last row, or ``sequence_by``
        names the column whose highest value counts.
        """
        from blockstore.rows.insert import upsert

        return upsert(
            self._access,
            data,
            _said(job, message, labels),
            duplicates=duplicates,
            sequence_by=sequence_by,
        )

    def insert(
        self,
        data: Any,
        *,
        on_conflict: str = "fail",
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        message: str = "",
    ) -> RowsChanged:
        """Insert rows whose keys do not exist. Where some do, ``"fail"`` raises RowConflict and
        applies nothing, and ``"ignore"`` leaves those rows out."""
        from blockstore.rows.insert import insert

        return insert(self._access, data, _said(job, message, labels), on_conflict=on_conflict)

    def update(
        self,
        set: Mapping[str, Value],  # noqa: A002
        where: Condition = None,
        *,
        isolation: str | None = None,
        job: Job | None = None,
        message: str = "",
    ) -> RowsChanged:
        """Give columns new values in all current rows that meet ``where``. A row that has them is
        left as it is: it gets no version, and is counted as unchanged.

        A value is one of Python's, a pyarrow expression over the row's columns
        (``pc.field("n") + 1``), or a function from a record batch to an array.
        """
        from blockstore.rows.update import update

        return update(self._access, set, where, _said(job, message, None, isolation))

    def delete_rows(
        self,
        rows: Any,
        *,
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        message: str = "",
    ) -> RowsChanged:
        """Delete rows by row id or key; those that do not exist are passed over. A table of rows
        may have a column ``_version``: then a row is deleted only if it still has that version.

        Keys are not looked up, and nothing is read for them. Of row ids only the ids are read, and
        of more than ten thousand in one call nothing, unless versions are named or rows have
        several sets of labels.
        """
        from blockstore.rows.delete import delete_rows

        return delete_rows(self._access, rows, _said(job, message, labels))

    def _overwrite_rows(
        self,
        data: Any,
        where: Condition,
        options: tuple[str | None, int | None],
        *,
        job: Job | None,
        labels: Mapping[str, str] | None,
        dry_run: bool,
        message: str,
    ) -> Changed:
        from blockstore.rows.overwrite import overwrite_rows, refuse_read_version

        isolation, read_version = options
        refuse_read_version("an overwrite", read_version)
        said = _said(job, message, labels, isolation)
        return overwrite_rows(self._access, data, where, said, dry_run=dry_run)

    def _delete_where(
        self,
        where: Condition,
        options: tuple[str | None, int | None],
        *,
        dry_run: bool,
        message: str,
    ) -> Changed:
        from blockstore.rows.overwrite import refuse_read_version
        from blockstore.rows.update import delete_where

        isolation, read_version = options
        refuse_read_version("a delete", read_version)
        said = _said(None, message, None, isolation)
        return delete_where(self._access, where, said, dry_run=dry_run)

    def set_cells(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        new: Any = None,
        delete: Iterable[Mapping[str, Any]] = (),
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        message: str = "",
    ) -> RowsChanged:
        """Change some cells of rows: each names its identity and the cells to change, and perhaps
        the ``_version`` that was read, which must still be the row's. A row that has these values
        is left as it is: it gets no version, and is counted as unchanged.

        In the same version ``new`` rows are added, whose keys must not exist, and the rows that
        ``delete`` names as ``rows`` does are deleted.
        """
        from blockstore.rows.cells import set_cells

        said = _said(job, message, labels)
        return set_cells(self._access, rows, said, new=new, delete=delete)

    def put_rows(
        self,
        data: Any,
        *,
        on_conflict: str = "replace",
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        message: str = "",
    ) -> RowsChanged:
        """Write complete rows: a row with a row id replaces that row, one without is new. With a
        column ``_version`` a row is replaced only if it still has that version.

        ``data`` may be a function that returns the rows, batch by batch: then they are not kept in
        memory. On a table with a key a row without a version replaces the one of its key, unless
        ``on_conflict="fail"``.
        """
        from blockstore.rows.row_set import put_rows

        said = _said(job, message, labels)
        return put_rows(self._access, data, said, on_conflict=on_conflict)

    def merge(
        self,
        source: Any,
        on: str | Iterable[str],
        *,
        isolation: str | None = None,
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        message: str = "",
    ) -> Merge:
        """Begin a merge of source rows, matched by the columns ``on`` with rows of all labels; say
        what to do with matched and unmatched rows, then ``execute`` it."""
        from blockstore.rows.merge import Merge

        return Merge(self._access, source, on, _said(job, message, labels, isolation))

    def fetch(
        self, rows: Iterable[tuple[Any, int]], *, labels: Mapping[str, str] | None = None
    ) -> pa.Table:
        """Given versions of given rows: pairs of a row id (or key) and a version, also of rows that
        were deleted. Raises NotFound for one that is not kept, and Invalid where rows with
        different labels have this key and version, and no labels are named."""
        from blockstore.rows.versions import fetch

        view = self.snapshot()
        return fetch(view.bucket, view.world, view.snapshot, rows, labels=labels, reads=view.reads)

    def row_history(self, row: Any, *, labels: Mapping[str, str] | None = None) -> pa.Table:
        """All versions of a row that are kept, the newest first; ``_deleted`` marks a deletion.
        A key names the rows with these labels, or with any."""
        from blockstore.rows.versions import row_history

        view = self.snapshot()
        return row_history(
            view.bucket, view.world, view.snapshot, row, labels=labels, reads=view.reads
        )


def _said(
    job: Job | None,
    message: str,
    labels: Mapping[str, str] | None = None,
    isolation: str | None = None,
) -> Said:
    from blockstore.operations.conditions import check_said, isolation_of
    from blockstore.rows.attempts import Said

    check_said(job, message)
    return Said(job=job, message=message, labels=labels, isolation=isolation_of(isolation))
