"""The page about running it: its drill runs as it stands, and it names every check of verify."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.care.finding import Check
from blockstore.cli.main import run
from blockstore.errors import HistoryReplaced

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "operations.md").read_text()
FAILS = "# exits 1"


def script(heading: str) -> list[str]:
    """The commands under a heading."""
    _, _, section = PAGE.partition(f"\n{heading}\n")
    (found,) = re.findall(
        r"^```sh\n(.*?)^```",
        section.partition("\n## ")[0].partition("\n### ")[0],
        re.DOTALL | re.MULTILINE,
    )
    return [line for line in found.splitlines() if line and not line.startswith("#")]


def test_every_check_of_verify_has_a_row() -> None:
    rows = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| "))
    assert [str(check) for check in Check if str(check) not in rows] == []


def test_the_drill_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our own command in this process, everything else by the shell."""
    monkeypatch.chdir(tmp_path)
    lines = script("## A drill")
    assert len(lines) > 25
    counts = []
    for line in lines:
        command = line.partition(FAILS)[0].strip()
        picked = re.fullmatch(r"(\w+)=\$\((blockstore .*) \| head -1\)", command)
        ours = picked[2] if picked else command
        if not ours.startswith("blockstore "):
            subprocess.run(["bash", "-euc", command], check=True)
            continue
        words = [os.path.expandvars(word) for word in shlex.split(ours)[1:]]
        code = run(words)
        out, err = capsys.readouterr()
        assert code == (1 if FAILS in line else 0), f"{line}\n{out}{err}"
        if picked:
            monkeypatch.setenv(picked[1], out.splitlines()[0])
        counts += re.findall(r"^ *(\d+) *$", out, flags=re.MULTILINE)
    assert counts == ["3", "3"]


@pytest.mark.parametrize("files", [True, False])
def test_a_table_is_put_back_under_a_writer_that_is_not_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = [("value", "double"), *([bs.file("doc")] if files else [])]
    writer = bs.create("drill/t", schema=bs.typed_schema(columns))
    schema = writer.definition.schema
    handle = writer.put_file(b"all is well", name="report.txt") if files else None

    def these(*values: float) -> pa.Table:
        rows = [{"value": value, **({"doc": handle} if files else {})} for value in values]
        return pa.Table.from_pylist(rows, schema=schema)

    writer.append(these(1.0, 2.0, 3.0))
    for line in script("### A table is put back from a copy"):
        command = line.partition("#")[0].strip()
        if command.startswith("blockstore delete"):
            writer.append(these(4.0))
            if handle is not None:  # as a compactor does in time
                shutil.rmtree(f"drill/t/files/{handle['id']}")
        if command.startswith("blockstore "):
            assert run(shlex.split(command)[1:]) == 0, f"{line}\n{''.join(capsys.readouterr())}"
        elif files or "/files" not in command:
            subprocess.run(["bash", "-euc", command], check=True)
    assert re.findall(r"^ *(\d+) *$", capsys.readouterr().out, flags=re.MULTILINE) == ["3"]
    with pytest.raises(HistoryReplaced, match="open the table again") as raised:
        writer.append(these(5.0))
    again = bs.open("drill/t")
    if handle is not None:
        with again.open_handle(handle) as file:
            assert file.read() == b"all is well"
        again.append(these(5.0))
    else:
        (ulid,) = re.findall(r"resume='(\w{26})'", str(raised.value))
        assert again.append(these(5.0), resume=ulid).published
    values = bs.open("drill/t").snapshot().scan(columns=["value"]).to_table()["value"].to_pylist()
    assert sorted(values) == [1.0, 2.0, 3.0, 5.0]


def test_the_recipe_for_a_forked_replica_brings_its_rows_over_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    here = bs.create(
        "drill/t", schema=pa.schema([("sensor", pa.string()), ("value", pa.float64())])
    )
    here.append(pa.table({"sensor": ["a", "b"], "value": [1.0, 2.0]}))
    shutil.copytree("drill/t", "drill/replica")
    here.append(pa.table({"sensor": ["here"], "value": [3.0]}))
    there = bs.open("drill/replica")
    there.append(pa.table({"sensor": ["there"], "value": [4.0]}))
    there.append(pa.table({"sensor": ["there", "there"], "value": [5.0, 6.0]}))
    for line in script("### A replica has forked"):
        assert run(shlex.split(line)[1:]) == 0, f"{line}\n{''.join(capsys.readouterr())}"
    for url in ("drill/t", "drill/replica-2"):
        values = bs.open(url).snapshot().scan(columns=["value"]).to_table()["value"].to_pylist()
        assert sorted(values) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
