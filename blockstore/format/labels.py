"""Labels: constants of a whole block that name its stream.

Rules:
- A name is a text that is not empty and not reserved; a value is a text; neither is long.
- A label is a column in SQL, so a new one has no name that a column or another label has, nor a
  reserved one, whatever the case of its letters. Blocks that have such a label are read: there the
  column comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from blockstore.errors import Invalid
from blockstore.format.fields import is_reserved
from blockstore.format.texts import check_text

MAX_LABEL = 1_000
"""Characters of a label's name, and of its value."""


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise Invalid for a label whose name or value is no text, or whose name is empty or
    reserved."""
    for name, value in labels.items():
        if not isinstance(name, str) or not name or is_reserved(name):
            raise Invalid(f"label name {name!r} is empty or reserved, expected a plain name")
        check_text("a label's name", name, limit=MAX_LABEL)
        check_text(f"label {name!r}", value, limit=MAX_LABEL)


def check_new_labels(labels: Mapping[str, str], columns: Iterable[str]) -> None:
    """Raise Invalid for labels that a table with these columns cannot take: also where SQL could
    not tell two names apart."""
    check_labels(
        {name.lower() if isinstance(name, str) else name: value for name, value in labels.items()}
    )
    check_labels(labels)
    taken = {name.lower(): f"column {name!r}" for name in columns}
    for name in labels:
        twin = taken.get(name.lower())
        if twin is not None:
            raise Invalid(
                f"label {name!r} has the name of {twin}, upper and lower case aside, and SQL "
                "could not tell them apart: rename the label"
            )
        taken[name.lower()] = f"label {name!r}"


def labels_like(columns: Iterable[str], labels: Iterable[str]) -> list[str]:
    """The columns that would hide one of these labels, having its name, upper and lower case
    aside."""
    names = {name.lower() for name in labels}
    return [name for name in columns if name.lower() in names]
