"""Wrong lines of a file, and the error that lists them.

Rule: a file is refused as a whole, with all of its wrong lines, up to a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blockstore.errors import Invalid

MOST = 1_000
"""So many wrong lines are listed."""
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """What is wrong with a line, or with one value in it."""

    line: int
    rule: str
    """What was expected."""
    says: str = ""
    """What was found and what was expected, as a part of a sentence."""
    column: str | None = None
    value: str | None = None
    remedy: str = "fix the value"


class BadRow(Invalid):
    """Wrong lines, with their parts for programs: those of the first, and ``lines`` of all.

    ``column`` and ``value`` are None if the line itself is wrong.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int,
        rule: str,
        column: str | None = None,
        value: str | None = None,
        lines: Sequence[BadLine] = (),
    ) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.value = value
        self.rule = rule
        self.lines = tuple(lines) or (BadLine(line=line, rule=rule, column=column, value=value),)


def refusal(name: str, lines: Sequence[BadLine]) -> BadRow:
    """Return the error of a file that has these wrong lines, of which there is at least one."""
    first = lines[0]
    others = sorted({one.line for one in lines} - {first.line})
    more = ""
    if others:
        least = "at least " if len(lines) >= MOST else ""
        shown = ", ".join(map(str, others[:_NAMED])) + (", …" if len(others) > _NAMED else "")
        more = f"{least}{len(others):,} more line{'s are' if len(others) > 1 else ' is'} wrong "
        more += f"({shown}); "
    return BadRow(
        f"{name}, line {first.line}: {first.says}: {first.remedy}; {more}nothing was written",
        line=first.line,
        column=first.column,
        value=first.value,
        rule=first.rule,
        lines=lines,
    )
