"""Labels: constants of a whole block that name its stream.

Rule: a name is a text that is not empty and not reserved; a value is a text; neither is long.
"""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.errors import Invalid
from blockstore.format.fields import is_reserved
from blockstore.format.texts import check_text

__all__ = ["MAX_LABEL", "check_labels"]

MAX_LABEL = 1_000
"""Characters of a label's name, and of its value."""


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise Invalid for a label whose name or value is no text, or whose name is empty or reserved."""
    for name, value in labels.items():
        if not isinstance(name, str) or not name or is_reserved(name):
            raise Invalid(f"label name {name!r} is empty or reserved, expected a plain name")
        check_text("a label's name", name, limit=MAX_LABEL)
        check_text(f"label {name!r}", value, limit=MAX_LABEL)
