"""The forms of a file, and the names that show them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath

from blockstore.errors import Invalid


class Form(StrEnum):
    """The form of a file."""

    PARQUET = "parquet"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    ARROW = "arrow"


_SUFFIXES = {
    ".parquet": Form.PARQUET,
    ".pq": Form.PARQUET,
    ".csv": Form.CSV,
    ".tsv": Form.TSV,
    ".tab": Form.TSV,
    ".json": Form.JSON,
    ".jsonl": Form.JSON,
    ".ndjson": Form.JSON,
    ".arrow": Form.ARROW,
    ".arrows": Form.ARROW,
    ".feather": Form.ARROW,
    ".ipc": Form.ARROW,
}
_COMPRESSED = frozenset({".gz", ".zst", ".bz2", ".lz4"})


def form_of(path: str) -> Form:
    """Return the form that the file's name shows. Raises Invalid if it shows none."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    form = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if form is None:
        raise Invalid(
            f"the name of {path} does not show its form, expected one ending in "
            f"{', '.join(_SUFFIXES)} "
            f"(with {', '.join(sorted(_COMPRESSED))} if compressed): give --format"
        )
    return form
