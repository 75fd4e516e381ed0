"""What the oracle knows at one moment, kept next to a copy of the bucket, and brought back with it.

Rules:
- A bucket that is put back is judged by what was known when it was copied: its history, its
  directories, its marks.
- What was returned to a caller since then no longer counts. What was acknowledged since may be
  gone; what was refused since may come: a copy of its entry that is still on its way fits the
  history that is back.
- What was refused before stays refused. A table that is created again knows nothing; only refusals
  outlive it.
- What a source or a block held is a fact of its name: that is kept through everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from blockstore.simulation.changes import Counted
from blockstore.simulation.ledger import Fate, Ledger
from blockstore.simulation.oracle.directories import Directory
from blockstore.simulation.oracle.judge import Judge, Replaced

_JUDGE = ("waiting", "_condemned")
_DIRECTORIES = ("by_ulid", "holders", "forced")
_HISTORY = (
    "boundary",
    "latest",
    "versions",
    "kept",
    "strays",
    "false_checkpoints",
    "chain",
    "_removed_at",
    "_created_ms",
    "_least_retention_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The oracle's memory of one moment."""

    parts: tuple[Mapping[str, Any], ...]
    writes: tuple[tuple[Fate, int | None], ...]
    intents: Mapping[str, tuple[Fate, tuple[int, ...], Counted | None, int | None]]


def remembered(judge: Judge, ledger: Ledger) -> Books:
    """What is known now."""
    return Books(
        parts=tuple(
            {name: _copied(getattr(part, name)) for name in names} for part, names in _parts(judge)
        ),
        writes=tuple((write.fate, write.acknowledged_ms) for write in ledger.writes),
        intents={
            name: (intent.fate, tuple(intent.versions), intent.counted, intent.nothing)
            for name, intent in ledger.intents.items()
        },
    )


def brought_back(judge: Judge, ledger: Ledger, books: Books, *, empty: bool = False) -> None:
    """Know again what the books say.

    ``empty``: they are those of a time before there was a table.
    """
    for (part, names), values in zip(_parts(judge), books.parts, strict=True):
        for name in names:
            setattr(part, name, _copied(values[name]))
    _answer_again(ledger, books, empty=empty)


def replaced(judge: Judge, ledger: Ledger) -> Replaced:
    """The history as it is, for processes that still hold it when it is gone."""
    assert judge.history is not None, "only a table with an index has a history"
    directories, meaning = judge.directories, judge.history.meaning
    return Replaced(
        versions=dict(judge.history.versions),
        entered=frozenset((*meaning.applied, *meaning.accounted)),
        stored=frozenset(
            directories.write_of[source]
            for source, holders in directories.holders.items()
            if holders and source in directories.write_of
        ),
        intents={
            name: tuple(intent.versions)
            for name, intent in ledger.intents.items()
            if intent.versions
        },
    )


def _parts(judge: Judge) -> tuple[tuple[object, tuple[str, ...]], ...]:
    blocks = ((judge, _JUDGE), (judge.directories, _DIRECTORIES))
    if judge.history is None:
        return blocks
    meaning = judge.history.meaning
    return (*blocks, (judge.history, _HISTORY), (meaning, meaning.remembered))


def _answer_again(ledger: Ledger, books: Books, *, empty: bool) -> None:
    for number, write in enumerate(ledger.writes):
        fate, at_ms = books.writes[number] if number < len(books.writes) else (Fate.OPEN, None)
        write.fate = _fate(write.fate, fate, empty)
        write.acknowledged_ms = at_ms
    for name, intent in ledger.intents.items():
        fate, versions, intent.counted, intent.nothing = books.intents.get(
            name, (Fate.OPEN, (), None, None)
        )
        intent.fate = _fate(intent.fate, fate, empty)
        intent.versions[:] = versions


def _fate(now: Fate, then: Fate, empty: bool) -> Fate:
    return now if empty and now is Fate.REFUSED else then


def _copied(value: Any) -> Any:
    """A copy of what changes; values that never change are themselves."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, set):
        return set(value)
    if isinstance(value, Directory):
        return replace(value, objects=dict(value.objects))
    return value
