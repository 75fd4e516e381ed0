"""Files in the form of sqllogictest, as DuckDB writes them, with its loops written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_LOOPS = ("loop", "foreach", "concurrentloop", "concurrentforeach")


@dataclass(frozen=True)
class Record:
    """One record: its first line in words, its SQL, and the lines that it expects."""

    words: tuple[str, ...]
    sql: str
    line: int
    expected: tuple[str, ...] | None = None


def records(path: Path) -> list[Record]:
    """The records of a file."""
    lines = [(number, line) for number, line in enumerate(path.read_text().splitlines(), 1)]
    return [_record(part) for part in _parts(list(_written_out(lines)))]


def _written_out(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines with each loop as often as it turns; one that runs at once is left as it is."""
    at = 0
    while at < len(lines):
        number, line = lines[at]
        words = line.split()
        at += 1
        if not words or words[0] not in _LOOPS:
            yield number, line
            continue
        first, depth = at, 1
        while depth:
            inner = lines[at][1].split()[:1]
            depth += (inner[:1] == ["endloop"]) * -1 + (bool(inner) and inner[0] in _LOOPS)
            at += 1
        if words[0].startswith("concurrent"):
            yield number, line
            continue
        values = map(str, range(int(words[2]), int(words[3])))
        for value in values if words[0] == "loop" else words[2:]:
            body = [(n, one.replace(f"${{{words[1]}}}", value)) for n, one in lines[first : at - 1]]
            yield from _written_out(body)
            yield number, ""


def _parts(lines: Sequence[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """The lines of each record, without comments."""
    part: list[tuple[int, str]] = []
    for number, line in lines:
        if line.strip() == "":
            if part:
                yield part
            part = []
        elif part or not line.startswith("#"):
            part.append((number, line))
    if part:
        yield part


def _record(part: list[tuple[int, str]]) -> Record:
    (line, first), *rest = part
    texts = [text for _, text in rest]
    own = texts.index("----") if "----" in texts else len(texts)
    expected = tuple(texts[own + 1 :]) if own < len(texts) else None
    sql = [text for text in texts[:own] if not text.startswith("#")]
    return Record(tuple(first.split()), "\n".join(sql), line, expected)
