"""The command in process: what it printed, what it complained, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from blockstore.cli.main import run


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Done]


@pytest.fixture
def blockstore(capsys: pytest.CaptureFixture[str]) -> Command:
    """``blockstore("ls", url)`` runs the command; code 0 is expected unless ``code=`` says
    another."""

    def command(*words: str, code: int = 0) -> Done:
        capsys.readouterr()
        found = run(list(words))
        out, err = capsys.readouterr()
        assert found == code, err or out
        if code:
            assert err.startswith("error: ")
            assert err.count("\n") == 1
        return Done(found, out, err)

    return command


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return f"{tmp_path}/lake"


@pytest.fixture
def flights(blockstore: Command, lake: str, tmp_path: Path) -> str:
    """A table with three blocks."""
    url = f"{lake}/flights"
    schema = "origin:string, time_hour:timestamp[us, UTC], delay:int, fare:decimal(10, 2)"
    blockstore(
        "create",
        url,
        "--schema",
        schema,
        "--time-column",
        "time_hour",
        "--sort-by",
        "origin,time_hour",
    )
    for day in (1, 2, 3):
        rows = "".join(
            f"{origin},2013-01-0{day} 0{hour}:00:00,{hour - 1},{hour}.50\n"
            for origin in ("JFK", "EWR")
            for hour in (1, 2, 3)
        )
        file = tmp_path / f"day{day}.csv"
        file.write_text("origin,time_hour,delay,fare\n" + rows)
        blockstore("write", url, str(file), "--label", f"day={day}")
    return url
