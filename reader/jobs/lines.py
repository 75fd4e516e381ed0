"""Rows of a delimited file and the lines on which they stand: a quoted value may hold line breaks, an empty line is no row."""

from __future__ import annotations

import csv
from pathlib import Path

__all__ = ["line_of_row"]


def line_of_row(path: Path, delimiter: str, row: int) -> int:
    """The line, from 1, on which a row begins; rows count from 0 after the header."""
    with open(path, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter)
        next(reader)
        before = reader.line_num
        for fields in reader:
            if fields:
                if row == 0:
                    return before + 1
                row -= 1
            before = reader.line_num
    return before
