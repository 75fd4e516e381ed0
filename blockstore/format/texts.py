"""Texts from callers that entries and metas keep forever: checked before anything is written.

Rule: a writer must not accept what a reader would refuse.
"""

from __future__ import annotations

from blockstore.errors import Invalid


def check_text(what: str, text: object, *, limit: int) -> None:
    """Raise Invalid unless ``text`` is text of at most ``limit`` characters that can be written as
    UTF-8."""
    if not isinstance(text, str):
        raise Invalid(f"{what} is {text!r}, expected text")
    if len(text) > limit:
        raise Invalid(f"{what} has {len(text):,} characters, expected at most {limit:,}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(
            f"{what} is {text!r}, which has half of a surrogate pair, expected text that UTF-8 can "
            "encode"
        ) from None
