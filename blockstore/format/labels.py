"""Labels: constants of a block that name its stream.

Rules:
- A name is a text that is not empty and not reserved; a value is a text; both are short.
- A label is a column in SQL, so the name of a new one must differ from columns, other labels and
  reserved names, regardless of case. Blocks that have such a label are still read: the column then
  hides the label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from blockstore.errors import Invalid
from blockstore.format.fields import is_reserved
from blockstore.format.texts import check_text

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Labels as a key: sorted pairs."""

MAX_LABEL = 1_000
"""Characters of a label's name, and of its value."""


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise Invalid for a label whose name or value is not text, or whose name is empty or
    reserved."""
    for name, value in labels.items():
        if not isinstance(name, str) or not name or is_reserved(name):
            raise Invalid(f"label name {name!r} is empty or reserved, expected a plain name")
        check_text("a label's name", name, limit=MAX_LABEL)
        check_text(f"label {name!r}", value, limit=MAX_LABEL)


def check_new_labels(labels: Mapping[str, str], columns: Iterable[str]) -> None:
    """Raise Invalid for labels that a table with these columns cannot have, also because SQL could
    not distinguish two names."""
    check_labels(
        {name.lower() if isinstance(name, str) else name: value for name, value in labels.items()}
    )
    check_labels(labels)
    taken = {name.lower(): f"column {name!r}" for name in columns}
    for name in labels:
        twin = taken.get(name.lower())
        if twin is not None:
            raise Invalid(
                f"label {name!r} has the same name as {twin} except for case, which SQL does not "
                "distinguish: rename the label"
            )
        taken[name.lower()] = f"label {name!r}"


def labels_like(columns: Iterable[str], labels: Iterable[str]) -> list[str]:
    """Return the columns that would hide one of these labels: the same name except for case."""
    names = {name.lower() for name in labels}
    return [name for name in columns if name.lower() in names]
