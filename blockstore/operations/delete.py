"""``delete``: the rows for which a condition is true go - one index entry.

Rules:
- SQL's three values: a row goes only where the condition is true; where it is unknown (a null) the
  row stays.
- A block of which every row goes is removed without being read where its statistics say so; its
  sources stay accounted, so nothing brings the rows back. A block of which some go is rewritten.
  All others are not read.
- With ``read_version`` the rows of that version are meant, as in ``overwrite``: what was appended
  since stays, or conflicts.
- The rows are gone from the newest version; earlier versions, as long as they are kept, still show
  them.
"""

from __future__ import annotations

from blockstore.errors import Invalid
from blockstore.index.entry import Operation
from blockstore.operations.access import Access
from blockstore.operations.conditions import check_said, quoted, scope_of
from blockstore.operations.replacement import Replacing
from blockstore.operations.results import Changed
from blockstore.operations.since import Since
from blockstore.operations.view import look_first, read_at
from blockstore.predicate import Condition


def delete(
    access: Access,
    where: Condition,
    *,
    isolation: str | None = None,
    read_version: int | None = None,
    dry_run: bool = False,
    message: str = "",
) -> Changed:
    """Delete the rows for which ``where`` is true. Raises Invalid for a condition that the table
    cannot evaluate, and Conflict where others brought rows that it is about, since ``read_version``
    where it is given, else since this call; then nothing is changed."""
    check_said(None, message)
    if where is None:
        raise Invalid("delete needs a condition: pass one, or 'true' for all rows")
    view = look_first(access)
    replacing = Replacing(
        access=access,
        operation=Operation.DELETE,
        scope=scope_of(view, "delete", where, isolation),
        view=view,
        parameters={"where": quoted(where)},
        message=message,
        since=None
        if read_version is None
        else Since(state=read_at(access, read_version, "delete"), read=True),
    )
    return replacing.preview(rows_added=0) if dry_run else replacing.run()
