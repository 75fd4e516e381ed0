"""The commit takes every task's answer or none: a missing one could mean missing rows."""

from __future__ import annotations

from typing import Any

import pytest

from blockstore.errors import Unavailable
from blockstore.spark.writing.data_source import TaskResult, TasksWriter


@pytest.mark.parametrize(
    "messages", [[None], [TaskResult(None), None], [TaskResult(None), object()]]
)
def test_a_commit_with_an_answer_missing_is_refused(messages: list[Any]) -> None:
    with pytest.raises(Unavailable, match="nothing was committed"):
        TasksWriter(None).commit(messages)  # type: ignore[arg-type]
