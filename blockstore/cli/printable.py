"""Text that is safe for a terminal: characters that control it, or hide or reverse text, are shown
by their numbers.

Output for programs (CSV, JSON, Parquet) is not changed.
"""

from __future__ import annotations

import re

_TURNS = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""Characters that change the direction of text, or that some terminals take as line breaks."""
_UNSEEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_TURNS}\ud800-\udfff]")
_UNSEEN_IN_CELL = re.compile(f"[\x00-\x1f\x7f-\x9f{_TURNS}\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """Return the text with its line breaks and tabs, and no other control characters."""
    return _UNSEEN.sub(_shown, text)


def printable_cell(text: str) -> str:
    """Return the text as one line: line breaks and tabs are shown too."""
    return _UNSEEN_IN_CELL.sub(_shown, text)


def line(text: str) -> str:
    """Return a sentence as one line, each run of white space as one space."""
    return printable(" ".join(text.split()))


def _shown(found: re.Match[str]) -> str:
    number = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")
