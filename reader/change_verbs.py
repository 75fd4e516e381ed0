"""The verb ``changes``: what versions of a table changed, for pipes.

Rules:
- Rows are written version by version. A version is complete once a row of a later one, or the end,
  has followed.
- A store that does not respond between two versions is asked again; while a version is written it
  ends the verb, and the error says after which version to continue.
- Standard error says at the end after which version to continue.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from blockstore.cli.failure import Usage, remark
from blockstore.cli.following import interval_s

if TYPE_CHECKING:
    import pyarrow as pa

    from blockstore.index.idle import IdleLook

Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
Form: TypeAlias = Literal["ndjson", "csv", "arrow"]


def changes(
    url: str,
    /,
    *,
    after: int,
    until: int | None = None,
    follow: Flag = False,
    every: str = "1s",
    before_images: Flag = False,
    format: Form = "ndjson",  # noqa: A002
) -> None:
    """Print what versions of a table changed, row by row; with --follow as they come.

    Each row has `_change` (insert, update or delete), `_version`, `_time`, `_reason`, `_row_id`
    where rows have ids, and the table's columns.

    Parameters
    ----------
    url
        The table.
    after
        Begin after this version; 0 begins with the table.
    until
        End with this version instead of the newest.
    follow
        Do not end: wait for newer versions until interrupted.
    every
        With --follow: the pause between two looks for newer versions.
    before_images
        Also print rows as they were before an update, as `update_before`.
    format
        The form of the rows: a JSON object a line, CSV with one header, or one Arrow stream.
    """
    if follow and until is not None:
        raise Usage("--follow does not end, and --until says where to end: give one of them")
    pause_s = interval_s(every, "--every")
    from blockstore.reader.forms.encode import Form as Encoded
    from blockstore.reader.forms.encode import pieces

    rows = _Rows(url, after, until, pause_s if follow else None, before_images=before_images)
    out = sys.stdout.buffer
    try:
        for piece in pieces(Encoded(format), rows.schema, rows):
            out.write(piece)
            out.flush()
    except KeyboardInterrupt:
        if not follow:
            raise
    finally:
        remark(f"continue with --after {rows.complete}")


class _Rows:
    """The batches to write, and up to which version they are complete."""

    def __init__(
        self, url: str, after: int, until: int | None, pause_s: float | None, *, before_images: bool
    ) -> None:
        from blockstore.table import open_any

        self._table = open_any(url)
        self._idle: IdleLook | None = None
        self._pause_s = pause_s
        self._images = before_images
        self._found = self._table.changes(after, until, before_images=before_images)
        self.schema = self._found.schema
        self._columns = self._named()
        self.complete = after

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            for batch in self._found:
                version, net = batch["_version"][0].as_py(), self._found.net
                # A net difference is of all versions up to its own: none is complete before it is.
                if net is None or version > net.version:
                    self.complete = max(self.complete, version - 1)
                yield batch
            self.complete = self._found.until
            if self._pause_s is None:
                return
            self._wait(self._pause_s)
            self._found = self._table.changes(self.complete, before_images=self._images)
            if self._found.schema != self.schema or self._named() != self._columns:
                raise Usage(
                    f"the columns of the table were changed after version {self.complete}: begin "
                    f"again with --after {self.complete}"
                )

    def _named(self) -> dict[str, int | None]:
        from blockstore.format.fields import ids_by_name

        return ids_by_name(self._found.form.definition.schema)

    def _wait(self, pause_s: float) -> None:
        from blockstore.errors import Unavailable
        from blockstore.index.idle import IdleLook

        if self._idle is None:
            self._idle = IdleLook(self._table.log, self._table.world.clock)
        while True:
            self._table.world.clock.sleep(pause_s)
            try:
                self._idle.look()
                if self._table.poll() > self.complete:
                    return
            except Unavailable as error:
                remark(f"trying again in about {pause_s:g} s: {' '.join(str(error).split())}")
