"""``overwrite``: new rows in the place of all rows, or of those that a condition is true for - one
index entry.

Rules:
- Every new row meets the condition (Delta's ``replaceWhere``): else the rows that it replaces and
  the rows that it brings would be two different sets. Rows replaced by no rows are a delete;
  nothing replaced by nothing makes no entry.
- With a job it happens once: the batch is in the entry, also where there was nothing to do.
- The rows are uploaded before the table is changed, and the table is looked at before they are:
  what is appended while they are uploaded follows the overwrite.
- With ``read_version`` it is about the rows of that version: what came since is judged from there
  on (``since.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockstore.format.block import Job
from blockstore.format.labels import check_labels, check_new_labels
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.operations.access import Access
from blockstore.operations.conditions import check_said, quoted, scope_of
from blockstore.operations.incoming import batches_of
from blockstore.operations.new_rows import FreshRows, Judge
from blockstore.operations.replacement import Replacing
from blockstore.operations.results import Changed
from blockstore.operations.since import Since
from blockstore.operations.view import look_first, read_at
from blockstore.predicate import Condition


def overwrite(
    access: Access,
    data: Any,
    *,
    where: Condition = None,
    job: Job | None = None,
    labels: Mapping[str, str] | None = None,
    isolation: str | None = None,
    read_version: int | None = None,
    dry_run: bool = False,
    message: str = "",
    producer: str = "python",
) -> Changed:
    """Replace the rows for which ``where`` is true, or all, by ``data``.

    Raises Invalid for rows that do not fit or do not meet the condition, and Conflict where others
    changed rows that it is about, since ``read_version`` where it is given, else since this call;
    then nothing is visible.
    """
    check_said(job, message)
    check_labels(labels or {})
    batches = batches_of(data)
    view = look_first(access)
    done = done_before(access.log, job)
    if done is not None:
        return done
    definition = view.state.definition
    if labels is not None:
        check_new_labels(labels, definition.schema.names)
    own_labels = dict(definition.labels if labels is None else labels)
    scope = scope_of(view, "overwrite", where, isolation, own_labels)
    judge = Judge(definition, own_labels, scope.predicate, quoted(where) or "true")
    replacing = Replacing(
        access=access,
        operation=Operation.OVERWRITE,
        scope=scope,
        view=view,
        job=job,
        parameters={} if where is None else {"where": quoted(where)},
        message=message,
        since=None
        if read_version is None
        else Since(state=read_at(access, read_version, "overwrite"), read=True),
    )
    if dry_run:
        return replacing.preview(sum(piece.num_rows for piece in judge.take(batches)))
    fresh = FreshRows(access, definition, labels=own_labels, job=job, producer=producer)
    fresh.write(judge.take(batches))
    replacing.fresh = fresh
    return replacing.run()


def done_before(log: Log, job: Job | None) -> Changed | None:
    """The result of a job that is committed already, by the state that the handle has.

    Raises HistoryReplaced.
    """
    app = None if job is None else log.state.batches.get(job.app)
    if job is None or app is None or job.batch not in app:
        return None
    log.confirm()
    written = app.written(job.batch)
    return Changed(
        operation=str(Operation.OVERWRITE),
        version=None if written is None else written.version,
        already=True,
    )
