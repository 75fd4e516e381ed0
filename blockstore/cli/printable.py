"""Values as a terminal may be given them: what would steer it, or hide or turn around text, is
shown by its number.

Machine output (CSV, JSON, Parquet) does not pass through here: it carries values as they are.
"""

from __future__ import annotations

import re

_TURNS = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""What turns the direction of text around, or breaks a line where a terminal may not."""
_UNSEEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_TURNS}\ud800-\udfff]")
_UNSEEN_IN_CELL = re.compile(f"[\x00-\x1f\x7f-\x9f{_TURNS}\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """The text in lines of its own, with tabs, and without anything else that a terminal acts
    on."""
    return _UNSEEN.sub(_shown, text)


def printable_cell(text: str) -> str:
    """The text in one line: line ends and tabs are shown as well."""
    return _UNSEEN_IN_CELL.sub(_shown, text)


def line(text: str) -> str:
    """A sentence in one line, each run of white space one space."""
    return printable(" ".join(text.split()))


def _shown(found: re.Match[str]) -> str:
    number = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")
