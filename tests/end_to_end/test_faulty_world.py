"""What the run on a failing store would find: the outcome of an append by its errors, and wrong
rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blockstore.errors import Corrupt, Indeterminate, Unavailable
from blockstore.operations.append import AppendedBlock
from tests.end_to_end.faulty_world import (
    CHANGER,
    DELETES,
    Done,
    Stop,
    append,
    changes_fit,
    problems_of,
)
from tests.end_to_end.killed_world import acknowledged, asked, note, rows

WRITTEN = AppendedBlock(ulid="b", version=1, published=True)


class Failing:
    """A table whose appends end so, one after the other; notes what was passed."""

    def __init__(self, *ends: Exception | AppendedBlock) -> None:
        self._ends = list(ends)
        self.resumed: list[str | None] = []

    def append(self, data: pa.Table, *, job: Any, resume: str | None) -> AppendedBlock:
        self.resumed.append(resume)
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


def outcome(folder: Path, *ends: Exception | AppendedBlock) -> tuple[str, Failing, Done]:
    table, done = Failing(*ends), Done()
    kind = append(table, 1, 1, 3, None, done, Stop(folder))  # type: ignore[arg-type]
    return kind(folder, 1).name, table, done


def test_an_append_that_is_not_known_is_resumed_until_it_is(tmp_path: Path) -> None:
    lost, again = Indeterminate("lost", ulid="u"), Unavailable("not now")
    kind, table, done = outcome(tmp_path, lost, again, WRITTEN)
    assert (kind, table.resumed, done.resolved) == ("acknowledged-1", [None, "u", "u"], 1)
    assert done.problems == []


@pytest.mark.parametrize(
    ("error", "expected", "problems"),
    [
        (Unavailable("no"), "refused-1", 0),
        (Corrupt("no"), "unknown-1", 0),
        (ValueError("no"), "unknown-1", 1),
        (Indeterminate("without a ULID"), "unknown-1", 1),
    ],
)
def test_other_errors_say_what_became_of_it(
    tmp_path: Path, error: Exception, expected: str, problems: int
) -> None:
    kind, _, done = outcome(tmp_path, error)
    assert (kind, len(done.problems)) == (expected, problems)


def test_changed_rows_are_those_after_one_of_the_changes() -> None:
    first, second = rows(CHANGER, 1, 3), rows(CHANGER, 2, 3)
    assert changes_fit(first, 1, 2, 3) == []
    assert changes_fit(second, 1, 2, 3) == []
    assert changes_fit(first.slice(0, 0), DELETES, DELETES, 3) == []
    for wrong in (pa.concat_tables([first, second]), first.slice(1), rows(CHANGER, 3, 3)):
        assert len(changes_fit(wrong, 1, 2, 3)) == 1
    assert len(changes_fit(first, 2, 2, 3)) == 1
    assert len(changes_fit(first.slice(0, 0), 1, 2, 3)) == 1


def test_a_lost_a_doubled_and_a_foreign_batch_are_found(tmp_path: Path) -> None:
    for batch in (1, 2):
        note(asked(tmp_path, 1), batch)
    note(acknowledged(tmp_path, 1), 1)
    right = rows(1, 1, 3)

    def found(*tables: pa.Table) -> int:
        return len(problems_of(pa.concat_tables(tables), {(1, 1)}, tmp_path, 0, 3))

    assert found(right) == found(right, rows(1, 2, 3)) == 0
    for wrong in ((rows(1, 2, 3),), (right, right), (right, rows(1, 3, 3)), (right.slice(1),)):
        assert found(*wrong) == 1
