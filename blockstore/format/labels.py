"""Labels: constants of a whole block that name its stream.

Rule: a name is a text that is not empty and not reserved; a value is a text.
"""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.errors import Invalid
from blockstore.format.fields import is_reserved

__all__ = ["check_labels"]


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise Invalid for a label whose name or value is no text, or whose name is empty or reserved."""
    for name, value in labels.items():
        if not isinstance(name, str) or not name or is_reserved(name):
            raise Invalid(f"label name {name!r} is empty or reserved, expected a plain name")
        if not isinstance(value, str):
            raise Invalid(f"label {name!r} is {value!r}, expected a string")
