"""What a caller says of a transaction, checked: its condition over the table's columns, its
isolation, its job."""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.format.properties import Isolation
from blockstore.format.texts import check_text
from blockstore.operations.scope import Scope
from blockstore.operations.view import View
from blockstore.operations.writer import MAX_MESSAGE
from blockstore.predicate import Condition, parse
from blockstore.scan.columns import Columns

_QUOTED = 10_000
"""Characters of a condition that an entry repeats."""


def check_said(job: Job | None, message: str) -> None:
    """Raise Invalid for a job that is not a Job, or a message that is not text."""
    if job is not None and not isinstance(job, Job):
        raise Invalid(f"job is {job!r}, expected a blockstore.Job(app, batch)")
    check_text("the message", message, limit=MAX_MESSAGE)


def scope_of(
    view: View, what: str, where: Condition, isolation: str | None, labels: Iterable[str] = ()
) -> Scope:
    """The scope of a transaction;

    ``labels`` and the table's own may be named though no stream has them. Raises Invalid.
    """
    snapshot = view.snapshot
    known = snapshot.label_names.union(snapshot.definition.labels, labels)
    columns = Columns.of(snapshot.definition, known)
    return Scope(
        what=what,
        predicate=parse(where, columns.all),
        isolation=isolation_of(isolation) or snapshot.definition.properties.isolation,
        labels=tuple(sorted(known)),
    )


def quoted(where: Condition) -> str | None:
    """The condition as an entry's parameters repeat it; None where there is none."""
    if where is None:
        return None
    text = str(where)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def isolation_of(wanted: str | None) -> Isolation | None:
    """The isolation that a caller names; None: the table's. Raises Invalid."""
    try:
        return None if wanted is None else Isolation(wanted)
    except ValueError:
        raise Invalid(
            f"isolation is {wanted!r}, expected one of {', '.join(map(repr, map(str, Isolation)))}"
        ) from None
